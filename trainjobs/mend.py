"""Mending: a trial whose owed checkpoint is damaged goes back to its newest intact one before it and trains again.

Going back before the damage, not to the newest checkpoint of all, is what brings the owed report back: a best that is
lost in the middle of a trial would otherwise be replaced by a worse one in silence.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from trainjobs.settle import committed, look, run_key
from trainjobs.store import Store
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import TrialRecord

logger = logging.getLogger(__name__)


def keep_only(snapshot: dict[str, Any], keep: list[str]) -> dict[str, Any]:
    """Train's snapshot with no other checkpoints than these.

    Args:
        snapshot: as read.
        keep: names of directories, in the order of commitment; the last becomes the newest.
    """
    results, indices = snapshot["checkpoint_results"], snapshot["checkpoint_report_indices"]
    pairs = [(r, i) for r, i in zip(results, indices, strict=True) if r["checkpoint_dir_name"] in keep]
    by_name = {r["checkpoint_dir_name"]: r for r, _ in pairs}
    return {
        **snapshot,
        "checkpoint_results": [r for r, _ in pairs],
        "checkpoint_report_indices": [i for _, i in pairs],
        "latest_checkpoint_result": by_name[keep[-1]],
        "pending_training_results": [],
        "pending_validation_specs": [],
        "current_report_index": max(i for _, i in pairs) + 1,
    }


def rewind(store: Store, sweep: Sweep, record: TrialRecord, damaged: set[str]) -> int:
    """Takes a trial's Train run back to its newest intact checkpoint before the damage.

    Args:
        store: of the run.
        sweep: of the run.
        record: of the trial.
        damaged: keys of its damaged checkpoints.

    Returns:
        The step from which it will train again; 0 where nothing intact is left.
    """
    key = run_key(record)
    items = committed(store, sweep, record)
    first = min((i for i, c in enumerate(items) if c.checkpoint in damaged), default=len(items))
    # The older ones are about to be relied on: their bytes are read, not only listed.
    intact = [c for c in items[:first] if not look(store, c.checkpoint, record.trial, read=True)[1]]
    lost = [c.checkpoint for c in items if c not in intact]
    if not intact:
        logger.warning("%s: no intact checkpoint before the damage, it trains from scratch", record.trial)
        store.delete_tree(key)
        return 0
    text = store.get(f"{key}/{layout.SNAPSHOT}")
    snapshot = json.loads(text or b"{}")
    names = [c.checkpoint.rpartition("/")[2] for c in intact]
    # The snapshot first: a listed checkpoint that is gone would keep the run from ever starting again.
    store.put(f"{key}/{layout.SNAPSHOT}", json.dumps(keep_only(snapshot, names)).encode())
    for checkpoint in lost:
        store.delete_tree(checkpoint)
    logger.warning("%s: goes back to epoch %s, %d checkpoint(s) dropped", record.trial, intact[-1].step, len(lost))
    return intact[-1].step


def retire(store: Store, sweep: Sweep, ranked: list[TrialRecord], keep: int) -> int:
    """Retention: removes the checkpoints of all trials but the best `keep`. Only after verification.

    Args:
        store: of the run.
        sweep: of the run.
        ranked: trials that ended, best first.
        keep: how many keep theirs.

    Returns:
        Number of trials that lost theirs.
    """
    for record in ranked[keep:]:
        store.delete_tree(run_key(record))
    return len(ranked[keep:])
