"""Settlement: what the sweep owes, found in Train's snapshots, looked at file by file, written down as a receipt."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from trainjobs.checksums import checksums_of, sha256
from trainjobs.manifest import is_manifest
from trainjobs.records import Records
from trainjobs.store import Entry, Store
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import Best, FileEntry, Manifest, Outcome, Owed, Receipt, TrialRecord
from trainsweep.contract.manifests import manifest_problems
from trainsweep.contract.owed import (
    RESUMABLE_OUTCOMES,
    Committed,
    OwedCheckpoint,
    TrialState,
    best_of,
    better,
    owed_checkpoints,
)
from trainsweep.contract.snapshot import SnapshotError, parse_snapshot

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Damage:
    """One owed checkpoint that is not as its manifest says."""

    trial: str
    checkpoint: str
    file: str
    problem: str

    def __str__(self) -> str:
        """For messages: the file and what is wrong."""
        return f"{self.checkpoint}/{self.file} ({self.problem})"


@dataclass(frozen=True)
class Settlement:
    """The result of one look at the store."""

    states: tuple[TrialState, ...]
    owed: tuple[Owed, ...]
    damaged: tuple[Damage, ...] = field(default=())


def run_key(record: TrialRecord) -> str:
    """Key of a trial's Train run."""
    return f"{layout.TRAIN}/{layout.train_run(record.trial, record.config_hash)}"


def committed(store: Store, sweep: Sweep, record: TrialRecord) -> tuple[Committed, ...]:
    """What Train has committed of a trial; nothing where there is no snapshot or an unreadable one."""
    key = run_key(record)
    text = store.get(f"{key}/{layout.SNAPSHOT}")
    if text is None:
        return ()
    try:
        return parse_snapshot(text, key, sweep.metric)
    except SnapshotError as error:
        logger.error("%s: %s", record.trial, error)
        return ()


def trial_states(store: Store, sweep: Sweep, records: Records) -> tuple[TrialState, ...]:
    """Every recorded trial with what is committed of it."""
    return tuple(TrialState(r.trial, r.state, committed(store, sweep, r)) for r in records)


def best_trial(states: Sequence[TrialState], records: Records, mode: str) -> Best | None:
    """The best committed report of all; where nothing is committed, the best that was reported."""
    parameters = {r.trial: r.parameters for r in records}
    best: Best | None = None
    for state in states:
        item = best_of(state.checkpoints, mode)
        if item is None or item.value is None or (best is not None and not better(item.value, best.value, mode)):
            continue
        best = Best(
            trial=state.trial,
            value=item.value,
            step=item.step,
            parameters=parameters[state.trial],
            checkpoint=item.checkpoint,
        )
    return best or best_reported(records, mode, {})


def best_reported(records: Records, mode: str, checkpoints: dict[int, str]) -> Best | None:
    """The best report as the driver saw it, for the heartbeat."""
    best: TrialRecord | None = None
    for record in records:
        if record.best_value is None:
            continue
        if best is None or best.best_value is None or better(record.best_value, best.best_value, mode):
            best = record
    if best is None or best.best_value is None:
        return None
    return Best(
        trial=best.trial,
        value=best.best_value,
        step=best.step if best.best_step is None else best.best_step,
        parameters=best.parameters,
        checkpoint=checkpoints.get(best.index),
    )


def _entry(store: Store, found: Entry, name: str) -> FileEntry:
    """A file that no manifest lists (a loop that reports by plain ray.train): read once for its checksums."""
    size, sums = checksums_of(store.stream(found.key))
    return FileEntry(path=name, size=size, checksums=sums)


def look(store: Store, checkpoint: str, trial: str, *, read: bool = False) -> tuple[list[FileEntry], list[Damage]]:
    """Lists a checkpoint and compares it with its manifests.

    Args:
        store: of the run.
        checkpoint: key of the directory.
        trial: for messages.
        read: whether the bytes are read and hashed too, not only listed.

    Returns:
        Every file that belongs to it, manifests included, and what is wrong.
    """
    listed = {e.key.removeprefix(checkpoint + "/"): e for e in store.entries(checkpoint)}
    files: dict[str, FileEntry] = {}
    damaged: list[Damage] = []

    def harm(name: str, problem: str) -> None:
        damaged.append(Damage(trial, checkpoint, name, problem))

    manifests: dict[str, Manifest | None] = {}
    for name in sorted(n for n in listed if is_manifest(n)):
        data = store.get(listed[name].key) or b""
        try:
            manifest = manifests[name] = Manifest.model_validate_json(data)
        except ValidationError:
            manifests[name] = None
            continue
        size, sums = checksums_of([data])
        files[name] = FileEntry(path=name, size=size, checksums=sums)
        files.update({entry.path: entry for entry in manifest.files})
    for name, problem in manifest_problems(listed, manifests):
        harm(name, problem)
    for name, entry in files.items():
        if name not in listed:
            harm(name, "Absent")
        elif listed[name].size != entry.size:
            harm(name, "WrongSize")
        elif read and sha256(checksums_of(store.stream(listed[name].key))[1]) != sha256(entry.checksums):
            harm(name, "WrongChecksum")
    for name, found in listed.items():
        if name not in files and not is_manifest(name):
            files[name] = _entry(store, found, name)
    if not files:
        harm(layout.MANIFEST, "Absent")
    return [files[n] for n in sorted(files)], damaged


def settle(store: Store, sweep: Sweep, records: Records, outcome: Outcome) -> Settlement:
    """Derives the owed set and looks at every checkpoint in it."""
    states = trial_states(store, sweep, records)
    items: list[OwedCheckpoint] = owed_checkpoints(
        states, sweep.spec.checkpoints.require, sweep.mode, resumable=outcome in RESUMABLE_OUTCOMES
    )
    owed, damaged = [], []
    for item in items:
        files, harm = look(store, item.checkpoint, item.trial)
        damaged += harm
        if files:
            owed.append(
                Owed(trial=item.trial, step=item.step, value=item.value, checkpoint=item.checkpoint, files=files)
            )
    return Settlement(states, tuple(owed), tuple(damaged))


def write_receipt(
    store: Store,
    sweep: Sweep,
    records: Records,
    settlement: Settlement,
    *,
    sequence: int,
    outcome: Outcome,
    reason: str,
    message: str,
) -> tuple[Receipt, str]:
    """Writes a receipt: write-once under the attempt, and as the run's newest.

    Returns:
        The receipt and the digest of its bytes, to which the verdict is bound.
    """
    receipt = Receipt(
        sweep=sweep.file.sweep,
        attempt_id=sweep.file.attempt_id,
        sequence=sequence,
        outcome=outcome,
        reason=reason,
        message=message[:1000],
        written_at=time.time(),
        metric=sweep.metric,
        mode=sweep.mode,
        trials=records.counts(),
        best=best_trial(settlement.states, records, sweep.mode),
        owed=list(settlement.owed),
    )
    data = receipt.to_json()
    name = layout.RECEIPT if sequence == 1 else f"receipt-{sequence}.json"
    key = layout.attempt_key(sweep.file.attempt_id, name)
    if not store.create(key, data):
        raise FileExistsError(f"{key} exists already: another driver of this attempt has written it")
    point_to(store, sweep.file.attempt, data)
    return receipt, hashlib.sha256(data).hexdigest()


def point_to(store: Store, attempt: int, data: bytes) -> None:
    """Makes a receipt the run's newest, unless a later attempt has written one."""
    for _ in range(5):
        found = store.tagged(layout.RECEIPT)
        if found is None:
            if store.create(layout.RECEIPT, data):
                return
            continue
        text, tag = found
        try:
            newest = layout.parse_attempt_id(str(json.loads(text).get("attemptId")))
        except (ValueError, AttributeError):
            newest = None
        mine = layout.parse_attempt_id(str(json.loads(data)["attemptId"]))
        same_sweep = newest is not None and mine is not None and newest[1] == mine[1]
        if same_sweep and newest is not None and newest[0] > attempt:
            logger.warning("the run's newest receipt belongs to attempt %s: left as it is", newest[0])
            return
        if store.replace(layout.RECEIPT, data, tag):
            return
    logger.error("%s changes all the time: the attempt's own receipt stands", layout.RECEIPT)
