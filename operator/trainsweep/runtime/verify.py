"""The second look at a receipt: our own reading of what is owed, our own listing, our own checksums.

Everything that blocks goes through a `Runner`, file by file, so that a look can be given up between any two reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from trainsweep.api.workload import Depth
from trainsweep.contract.documents import (
    Best,
    FileEntry,
    MissingFile,
    Owed,
    Receipt,
    SweepRef,
    TrialCounts,
    TrialRecord,
)
from trainsweep.contract.layout import MANIFEST, SNAPSHOT, TRAIN, train_run
from trainsweep.contract.owed import RESUMABLE_OUTCOMES, Committed, Require, TrialState, owed_checkpoints
from trainsweep.contract.snapshot import SnapshotError, parse_snapshot
from trainsweep.core import settlement
from trainsweep.core.model import Proof, Settlement
from trainsweep.runtime.documents_reader import (
    SNAPSHOT_BYTES,
    BadDocument,
    check_depth,
    read_manifest,
    read_receipt,
    read_trials,
)
from trainsweep.runtime.store import (
    Absent,
    Denied,
    Entry,
    Hasher,
    Store,
    StoreError,
    TooLarge,
    Unavailable,
    checksum_of,
)

T = TypeVar("T")
A = TypeVar("A")

PARALLEL = 4
CHECKPOINT_FILES = 20_000
TRIAL_FOLDERS = 20_000
SHOWN_MISSING = 64
_MANIFEST_STEM = MANIFEST.removesuffix(".json")


class Runner(Protocol):
    """Runs a blocking call elsewhere."""

    async def __call__(self, call: Callable[..., T], *args: Any) -> T:
        """The call's result."""
        ...


async def in_thread(call: Callable[..., T], *args: Any) -> T:
    """The simplest runner: asyncio's own threads."""
    return await asyncio.to_thread(call, *args)


@dataclass(frozen=True)
class Target:
    """Whose checkpoints are looked at, and how."""

    sweep: SweepRef
    attempt_id: str
    metric: str
    mode: str
    require: Require
    depth: Depth = Depth.CHECKSUMS
    expected_trials: int = 0


@dataclass
class Meter:
    """What a look has read, and the way to give it up."""

    streamed: int = 0
    cancelled: bool = False
    on_streamed: Callable[[int], None] | None = None

    def add(self, count: int) -> None:
        """Called for every piece that was read; raises where the look was given up."""
        self.streamed += count
        if self.on_streamed is not None:
            self.on_streamed(count)
        if self.cancelled:
            raise Unavailable("the look was given up")


@dataclass(frozen=True)
class Derived:
    """What the run's own state says: trials, what is committed, and from it counts and best."""

    records: tuple[TrialRecord, ...]
    states: tuple[TrialState, ...]
    counts: TrialCounts
    best: Best | None


@dataclass
class Tally:
    """Result of comparing owed checkpoints with the store."""

    verified: int = 0
    files: int = 0
    bytes: int = 0
    missing: list[MissingFile] = field(default_factory=list)


async def bounded(things: Iterable[A], work: Callable[[A], Awaitable[None]], parallel: int = PARALLEL) -> None:
    """Works on all things, at most `parallel` at once; the first error ends all."""
    iterator = iter(things)

    async def pull() -> None:
        for thing in iterator:
            await work(thing)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(parallel):
                group.create_task(pull())
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _snapshot(store: Store, run_key: str, metric: str) -> tuple[Committed, ...]:
    key = f"{run_key}/{SNAPSHOT}"
    try:
        text = store.get(key, SNAPSHOT_BYTES)
    except Absent:
        return ()
    try:
        check_depth(text)
        return parse_snapshot(text, run_key, metric)
    except (SnapshotError, BadDocument) as error:
        raise BadDocument(f"{key}: {error}") from None


def _records(store: Store) -> list[TrialRecord]:
    try:
        return read_trials(store)
    except Absent:
        return []


async def derive(store: Store, target: Target, run: Runner) -> Derived:
    """Reads what is committed of every trial that was recorded.

    Raises:
        StoreError: where something could not be read, or is not what it should be.
    """
    records = await run(_records, store)
    present = set(await run(store.folders, TRAIN, TRIAL_FOLDERS))
    committed: dict[str, tuple[Committed, ...]] = {}

    async def one(record: TrialRecord) -> None:
        name = train_run(record.trial, record.config_hash)
        if name in present:
            committed[record.trial] = await run(_snapshot, store, f"{TRAIN}/{name}", target.metric)

    await bounded(records, one)
    states = settlement.trial_states(records, committed)
    return Derived(
        tuple(records),
        tuple(states),
        settlement.counts(records, target.expected_trials),
        settlement.best_report(records, states, target.mode),
    )


def _check_file(store: Store, owed: Owed, entry: FileEntry, meter: Meter) -> str:
    """What is wrong with one file at depth Checksums; "" where nothing is."""
    key = f"{owed.checkpoint}/{entry.path}"
    try:
        info = store.head(key)
        if info.size != entry.size:
            return "WrongSize"
        agrees = settlement.stored_checksum_agrees(entry, info.checksums)
        if agrees is None:
            wanted = next((c for c in entry.checksums if c.algorithm in Hasher.SUPPORTED), None)
            if wanted is None:
                raise BadDocument(
                    f"{key} has no checksum to compare with: save by trainjobs.checkpoint, or set "
                    "checkpoints.verify.depth to Sizes"
                )
            agrees = checksum_of(store.chunks(key), wanted.algorithm, meter.add) == wanted.value
    except Absent:
        return "Absent"
    return "" if agrees else "WrongChecksum"


async def compare(store: Store, owed: Sequence[Owed], depth: Depth, run: Runner, meter: Meter) -> Tally:
    """Compares owed checkpoints, file by file, with what the store has."""
    tally = Tally()

    async def one(item: Owed) -> None:
        listed = await run(store.listing, item.checkpoint, CHECKPOINT_FILES)
        sizes = {e.key: e.size for e in listed}
        bad = settlement.missing_files(item, sizes, compare_sizes=depth is not Depth.LISTING)
        if depth is Depth.CHECKSUMS:
            known = {m.file for m in bad}

            async def file(entry: FileEntry) -> None:
                problem = await run(_check_file, store, item, entry, meter)
                if problem:
                    bad.append(settlement.missing(item.trial, item.checkpoint, entry.path, problem))

            await bounded([e for e in item.files if e.path not in known], file)
        absent = {f"{m.checkpoint}/{m.file}" for m in bad if m.problem == "Absent"}
        if absent and (coming := sorted(absent & await run(store.uploading, item.checkpoint))):
            raise Unavailable(f"{coming[0]} is still being uploaded")
        if bad:
            tally.missing += sorted(bad, key=lambda m: m.file)
            return
        tally.verified += 1
        tally.files += len(item.files)
        tally.bytes += sum(e.size for e in item.files)

    await bounded(owed, one)
    tally.missing.sort(key=lambda m: (m.trial, m.checkpoint, m.file))
    return tally


def manifest_keys(listed: Iterable[Entry], checkpoint: str) -> list[str]:
    """Keys of the manifests in a checkpoint's own directory."""
    found = []
    for entry in listed:
        folder, _, name = entry.key.rpartition("/")
        if folder == checkpoint and name.startswith(_MANIFEST_STEM) and name.endswith(".json"):
            found.append(entry.key)
    return found


async def _unclaimed(store: Store, owed: Sequence[Owed], run: Runner) -> str:
    """A file that a checkpoint's own manifest names and the receipt leaves out; "" where there is none."""
    problems: list[str] = []

    async def one(item: Owed) -> None:
        claimed = {e.path for e in item.files}
        listed = await run(store.listing, item.checkpoint, CHECKPOINT_FILES)
        for key in manifest_keys(listed, item.checkpoint):
            manifest = await run(read_manifest, store, key)
            left_out = sorted({e.path for e in manifest.files} - claimed)
            if left_out:
                problems.append(
                    f"the receipt leaves out {item.checkpoint}/{left_out[0]}, which the checkpoint's manifest names"
                )

    await bounded(owed, one)
    return min(problems, default="")


async def verify_receipt(store: Store, target: Target, digest: str, run: Runner, meter: Meter) -> Settlement:
    """The second look at an attempt's receipt.

    Args:
        store: the run's prefix.
        target: whose receipt it must be.
        digest: hex SHA-256 that the driver announced, "" where none did.
        run: runs blocking calls.
        meter: counts what is streamed.

    Raises:
        Absent: there is no receipt.
        StoreError: it could not be judged.
    """
    receipt, found, key = await run(read_receipt, store, target.attempt_id)
    base = Settlement(
        target.attempt_id,
        "Receipt",
        digest or found,
        Proof.UNKNOWN,
        receipt_uri=f"{store.location.uri}/{key}",
        made_at=time.time(),
    )
    if digest and digest != found:
        # The driver may be writing a newer one just now; the next heartbeat names it.
        return _with(base, Proof.UNKNOWN, "ReceiptChanged", f"the receipt has digest {found}, announced was {digest}")
    problem = settlement.receipt_problem(receipt, target.sweep, target.attempt_id, target.metric, target.mode)
    if problem:
        return _with(base, Proof.INVALID, "ReceiptInvalid", problem)
    base = _told(base, receipt)
    derived = await derive(store, target, run)
    owed = owed_checkpoints(
        derived.states, target.require, target.mode, resumable=receipt.outcome in RESUMABLE_OUTCOMES
    )
    problem = settlement.owed_difference(receipt.owed, owed)
    if problem:
        return _with(base, Proof.INVALID, "ReceiptInvalid", problem)
    tally = await compare(store, receipt.owed, target.depth, run, meter)
    if not tally.missing:
        problem = await _unclaimed(store, receipt.owed, run)
        if problem:
            return _with(base, Proof.INVALID, "ReceiptInvalid", problem)
    return concluded(base, len(owed), tally)


def _told(base: Settlement, receipt: Receipt) -> Settlement:
    return _replace(
        base,
        outcome=receipt.outcome,
        outcome_reason=receipt.reason,
        outcome_message=receipt.message,
        trials=receipt.trials,
        best=receipt.best,
    )


def _replace(base: Settlement, **changes: Any) -> Settlement:
    return Settlement(**{**base.__dict__, **changes})


def _with(base: Settlement, proof: Proof, reason: str, message: str, *, refused: bool = False) -> Settlement:
    return _replace(base, proof=proof, reason=reason, message=message[:1024], denied=refused, made_at=time.time())


def concluded(base: Settlement, required: int, tally: Tally) -> Settlement:
    """The settlement of a look that could read everything."""
    proof = Proof.MISSING if tally.missing else Proof.PERSISTED
    names = "; ".join(f"{m.checkpoint}/{m.file}: {m.problem}" for m in tally.missing[:4])
    return _replace(
        base,
        proof=proof,
        reason="FilesMissing" if tally.missing else "Verified",
        message=f"{len(tally.missing)} owed files are not as they should be: {names}" if tally.missing else "",
        required=required,
        verified=tally.verified,
        files=tally.files,
        bytes=tally.bytes,
        missing=tuple(tally.missing[:SHOWN_MISSING]),
        made_at=time.time(),
    )


def failed(target: Target, source: str, digest: str, error: BaseException) -> Settlement:
    """The settlement of a look that an error ended: what is wrong with a document is invalid, all else is unknown."""
    base = Settlement(target.attempt_id, source, digest, Proof.UNKNOWN)
    if isinstance(error, (BadDocument, TooLarge)):
        return _with(base, Proof.INVALID, "ReceiptInvalid", str(error))
    if isinstance(error, Denied):
        return _with(base, Proof.UNKNOWN, "StoreDenied", str(error), refused=True)
    if isinstance(error, Absent):
        return _with(base, Proof.INVALID, "ReceiptInvalid", f"{error}, although the driver says that it wrote it")
    if isinstance(error, StoreError):
        return _with(base, Proof.UNKNOWN, "StoreUnreadable", str(error))
    if isinstance(error, TimeoutError):
        return _with(
            base, Proof.UNKNOWN, "StoreUnreadable", "the look took too long and was given up; it is made again"
        )
    return _with(base, Proof.UNKNOWN, "InternalError", f"{type(error).__name__}: {error}")
