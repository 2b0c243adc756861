"""The fence: a write-once start marker for each attempt, and the rule by which an older driver sees that it must go.

A node that lost its network can keep an old driver alive beside the new one; both would write the same Train runs.
"""

from __future__ import annotations

import os
import time
from importlib.metadata import PackageNotFoundError, version

from trainjobs.outcome import DriverError
from trainjobs.store import Entry, Store
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import FailureReason, Start


def _versions() -> dict[str, str]:
    found = {}
    for name in ("trainsweep", "ray", "torch", "optuna", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if "trainsweep" not in found:  # code mounted into the image, not installed
        from trainjobs import __version__

        found["trainsweep"] = __version__
    return found


def _starts(store: Store) -> dict[str, Entry]:
    """The start markers by attempt."""
    found = {}
    for entry in store.entries(layout.ATTEMPTS):
        parts = entry.key.split("/")
        if len(parts) == 3 and parts[2] == layout.START:
            found[parts[1]] = entry
    return found


def newer_attempt(starts: dict[str, Entry], own: str) -> str | None:
    """The attempt that fences this one, None where there is none.

    Of the same sweep the higher number is newer. A sweep that was created again counts from 1: then the store's own
    clock decides, by the time of the marker.
    """
    mine = layout.parse_attempt_id(own)
    if mine is None:
        return None
    for name, entry in sorted(starts.items()):
        other = layout.parse_attempt_id(name)
        if other is None or name == own:
            continue
        if other[1] == mine[1]:
            if other[0] > mine[0]:
                return name
        elif own in starts and entry.modified > starts[own].modified:
            return name
    return None


def _fenced(by: str) -> DriverError:
    return DriverError(
        FailureReason.FENCED, f"attempt {by} has started on this run: this driver ends and writes nothing more"
    )


def enter(store: Store, sweep: Sweep) -> Start:
    """Writes this attempt's start marker.

    Raises:
        DriverError: Fenced, where a newer attempt has started or another driver of this very attempt.
    """
    own = sweep.file.attempt_id
    by = newer_attempt(_starts(store), own)
    if by is not None:
        raise _fenced(by)
    start = Start(
        attempt_id=own,
        attempt=sweep.file.attempt,
        sweep_uid=sweep.file.sweep.uid,
        started_at=time.time(),
        versions=_versions(),
        image=os.environ.get("TRAINSWEEP_IMAGE", ""),
    )
    if not store.create(layout.attempt_key(own, layout.START), start.to_json()):
        raise DriverError(
            FailureReason.FENCED, f"attempt {own} has a start marker already: another driver of it has begun"
        )
    check(store, own)  # two that entered at once: the older one sees the newer now, at the latest
    return start


def check(store: Store, own: str) -> None:
    """Looks again.

    Raises:
        DriverError: Fenced.
    """
    by = newer_attempt(_starts(store), own)
    if by is not None:
        raise _fenced(by)
