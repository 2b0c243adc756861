"""Train's own record of committed checkpoints, read as plain JSON: what driver and operator both derive the owed set from.

Ray 2.58 writes `checkpoint_manager_snapshot.json` beside a run's checkpoints after the files of a report are uploaded: a
checkpoint exists only if this file lists it. The text may be hostile: nothing of it is trusted beyond names and numbers.
"""

from __future__ import annotations

import json
import math
from typing import Any

from trainsweep.contract.layout import StorageURIError, relative_key
from trainsweep.contract.owed import Committed

EPOCH = "epoch"
"""Name of the reported, 1-based count of finished epochs: `training_iteration` restarts with every try."""

PARTIAL = "trainsweep_partial"
"""Marks a checkpoint inside of an epoch: it is kept for a resume and has no result. Its objective is a number that ranks last in
Train's retention: a missing one would rank first, and NaN, which becomes null in the snapshot, ends every later start."""


class SnapshotError(ValueError):
    """A snapshot that cannot be read; the message says what is wrong with it."""


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def _entry(raw: Any, run_key: str, metric: str, index: int) -> Committed:
    if not isinstance(raw, dict):
        raise SnapshotError("an entry of the snapshot is no object")
    name, metrics = raw.get("checkpoint_dir_name"), raw.get("metrics")
    if not isinstance(name, str) or "/" in name:
        raise SnapshotError("an entry of the snapshot names no checkpoint directory")
    try:
        key = relative_key(f"{run_key}/{name}")
    except StorageURIError as error:
        raise SnapshotError(str(error)) from None
    values = metrics if isinstance(metrics, dict) else {}
    epoch = _number(values.get(EPOCH))
    step = int(epoch) if epoch is not None and epoch >= 0 else index + 1
    return Committed(key, step, None if values.get(PARTIAL) is True else _number(values.get(metric)))


def parse_snapshot(text: bytes | str, run_key: str, metric: str) -> tuple[Committed, ...]:
    """The committed checkpoints of one trial, in the order of commitment (the last is the newest).

    Args:
        text: the snapshot's JSON.
        run_key: key of the Train run's directory relative to the run, `train/<trial>-<config hash>`.
        metric: name of the objective.

    Raises:
        SnapshotError: for text that is no snapshot, or names that leave the run's directory.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot is no JSON: {error}") from None
    results = data.get("checkpoint_results") if isinstance(data, dict) else None
    if not isinstance(results, list):
        raise SnapshotError("the snapshot has no list checkpoint_results")
    indices = data.get("checkpoint_report_indices")
    # Train sorts the list by score where retention goes by score; the report indices keep the order of commitment.
    order = indices if isinstance(indices, list) and len(indices) == len(results) else list(range(len(results)))
    if not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i < 2**53 for i in order):
        raise SnapshotError("checkpoint_report_indices holds something that is no index")
    by_key: dict[str, Committed] = {}
    for index, raw in sorted(zip(order, results, strict=True), key=lambda pair: pair[0]):
        entry = _entry(raw, run_key, metric, index)
        by_key[entry.checkpoint] = entry
    latest = data.get("latest_checkpoint_result")
    if latest is not None:
        newest = _entry(latest, run_key, metric, max(order, default=-1) + 1)
        by_key.setdefault(newest.checkpoint, newest)
        by_key[newest.checkpoint] = by_key.pop(newest.checkpoint)
    return tuple(by_key.values())
