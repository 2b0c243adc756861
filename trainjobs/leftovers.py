"""What a killed attempt left behind: checkpoint folders that Train never committed, and uploads that never ended.

Neither is ever read again, and nobody else removes them: Train's retention knows only what it has committed, and S3 keeps
the parts of an open upload, and bills them, until somebody aborts it. Only what lies below this run's prefix is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainjobs.settle import run_key
from trainjobs.store import Entry, Store, StoreError
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import TrialRecord
from trainsweep.contract.owed import TrialState
from trainsweep.contract.snapshot import SnapshotError, parse_snapshot

logger = logging.getLogger(__name__)

QUIET_SECONDS = 120.0
"""An old driver on a partitioned node sees the fence within seconds and ends within half a minute: until then it might
still commit what it has just uploaded. A folder that changed later than this is left for the next look."""


@dataclass(frozen=True)
class Cleared:
    """What one look removed."""

    folders: tuple[str, ...] = ()
    uploads: int = 0


def orphans(entries: Iterable[Entry], committed: set[str], run: str, now: float) -> list[str]:
    """Checkpoint folders of one Train run that are not committed and have been quiet for a while.

    Args:
        entries: every object of the run.
        committed: keys of the folders that its snapshot lists.
        run: key of the Train run.
        now: the store's own clock, Unix seconds.
    """
    newest: dict[str, float] = {}
    for entry in entries:
        name, slash, _ = entry.key.removeprefix(run + "/").partition("/")
        if slash:
            key = f"{run}/{name}"
            newest[key] = max(newest.get(key, 0.0), entry.modified)
    return sorted(k for k, modified in newest.items() if k not in committed and now - modified >= QUIET_SECONDS)


def _committed(store: Store, sweep: Sweep, run: str) -> set[str] | None:
    """Keys of a run's committed folders; None where its snapshot cannot be understood: then nothing is touched."""
    text = store.get(f"{run}/{layout.SNAPSHOT}")
    try:
        items = () if text is None else parse_snapshot(text, run, sweep.metric)
    except SnapshotError as error:
        logger.warning("%s: %s; nothing of it is cleared", run, error)
        return None
    return {item.checkpoint for item in items}


def clear(store: Store, sweep: Sweep, records: Iterable[TrialRecord], states: Sequence[TrialState] = ()) -> Cleared:
    """Removes leftovers of earlier attempts and of killed workers. What cannot be removed is said and left.

    Call it while no trial of this attempt runs: before the first, or after the last.

    Args:
        store: of the run.
        sweep: of the run.
        records: of its trials.
        states: what a settlement has just found committed: only where that leaves a folder over, a snapshot is read again.
    """
    known = {state.trial: {item.checkpoint for item in state.checkpoints} for state in states}
    folders: list[str] = []
    uploads = 0
    try:
        # The store's own clock: the newest of what this driver has written itself.
        own = store.entries(f"{layout.ATTEMPTS}/{sweep.file.attempt_id}")
        now = max((entry.modified for entry in own), default=0.0)
        by_run: dict[str, list[Entry]] = {}
        for entry in store.entries(layout.TRAIN):
            by_run.setdefault("/".join(entry.key.split("/")[:2]), []).append(entry)
        for record in records:
            run = run_key(record)
            left = orphans(by_run.get(run, ()), known.get(record.trial, set()), run, now)
            # Read after the listing: what was committed in between stands in it.
            committed = _committed(store, sweep, run) if left else None
            for folder in () if committed is None else (f for f in left if f not in committed):
                store.delete_tree(folder)
                folders.append(folder)
        for upload in store.open_uploads():
            if now - upload.started >= QUIET_SECONDS:
                store.abort(upload)
                uploads += 1
    except StoreError as error:
        logger.warning("leftovers of earlier attempts stay: %s", error.message)
    if folders or uploads:
        logger.info("cleared %d folder(s) that were never committed and %d open upload(s)", len(folders), uploads)
    return Cleared(tuple(folders), uploads)
