"""Where a driver's settlement exists, the operator's inventory of the same run must owe the same: asserted, not hoped."""

from __future__ import annotations

import asyncio

from trainjobs.filestore import FileStore
from trainjobs.records import Records
from trainjobs.settle import Settlement, best_trial, settle
from trainjobs.sweep import Sweep
from trainsweep.contract.documents import Outcome
from trainsweep.contract.owed import RESUMABLE_OUTCOMES, owed_checkpoints
from trainsweep.runtime.inventory import files_of
from trainsweep.runtime.store import FileStore as Reader
from trainsweep.runtime.verify import Meter, Target, derive, in_thread


def assert_inventory_agrees(sweep: Sweep, records: Records, store: FileStore, outcome: Outcome) -> Settlement:
    """Settles as the driver does, makes the operator's inventory, and compares them in everything that both say."""
    records.flush()
    driver = settle(store, sweep, records, outcome)
    reader = Reader(store.location)
    target = Target(
        sweep.file.sweep,
        sweep.file.attempt_id,
        sweep.metric,
        sweep.mode,
        sweep.spec.checkpoints.require,
        expected_trials=sweep.count,
    )
    derived = asyncio.run(derive(reader, target, in_thread, Meter()))
    owed = owed_checkpoints(derived.states, target.require, target.mode, resumable=outcome in RESUMABLE_OUTCOMES)
    said = [(o.trial, o.checkpoint, o.step, o.value) for o in driver.owed]
    # The driver leaves out what has no file at all, and calls it damaged.
    empty = {d.checkpoint for d in driver.damaged} - {o.checkpoint for o in driver.owed}
    assert said == [(o.trial, o.checkpoint, o.step, o.value) for o in owed if o.checkpoint not in empty]
    counts = records.counts()
    assert derived.counts == counts.model_copy(update={"expected": sweep.count})
    best = best_trial(driver.states, records, sweep.mode)
    if derived.best is not None:
        assert best == derived.best
    for item in driver.owed:
        files, bad = files_of(reader, item.checkpoint, Meter())
        claimed = {f.path: f for f in item.files}
        assert {f.path for f in files} <= claimed.keys()
        assert all(claimed[f.path].size == f.size for f in files if f.path in claimed)
        named = {(d.file, d.problem) for d in driver.damaged if d.checkpoint == item.checkpoint}
        assert set(bad) <= named
    return driver
