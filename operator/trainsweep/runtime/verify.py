"""The second look at a receipt: our own reading of what is owed, our own listing, our own checksums.

Everything that blocks goes through a `Runner`, file by file, so that a look can be given up between any two reads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from trainsweep.api.workload import Depth
from trainsweep.contract.documents import (
    Best,
    FileEntry,
    Manifest,
    MissingFile,
    Owed,
    Receipt,
    SweepRef,
    TrialCounts,
    TrialRecord,
)
from trainsweep.contract.layout import SNAPSHOT, TRAIN, train_run
from trainsweep.contract.manifests import is_manifest, manifest_problems
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
from trainsweep.runtime.filecheck import check_file
from trainsweep.runtime.store import Absent, Denied, Store, StoreError, TooLarge, Unavailable

T = TypeVar("T")
A = TypeVar("A")

PARALLEL = 4
MANIFESTS = 20_000
"""Manifests of one checkpoint, one a rank."""
SHOWN_MISSING = 64


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
    advice: str = ""
    """Why a file is gone and how to have it back, as far as the store tells."""
    left_out: str = ""
    """A file that the receipt should name and does not."""


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


def _present(store: Store, names: Collection[str], meter: Meter) -> set[str]:
    """Which of these Train runs have a folder; however many folders there are, only these are kept."""
    found = set()
    for name in store.folder_names(TRAIN):
        meter.add(0)
        if name in names:
            found.add(name)
    return found


async def derive(store: Store, target: Target, run: Runner, meter: Meter) -> Derived:
    """Reads what is committed of every trial that was recorded.

    Raises:
        StoreError: where something could not be read, or is not what it should be.
    """
    records = await run(_records, store)
    names = {train_run(r.trial, r.config_hash) for r in records}
    present = await run(_present, store, names, meter)
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


@dataclass(frozen=True)
class Listed:
    """What a listing shows of one checkpoint: of the files that are asked for, and its manifests. Bounded by both."""

    sizes: dict[str, int]
    """By key relative to the prefix."""
    archived: tuple[str, ...]
    manifests: tuple[str, ...]


def list_checkpoint(store: Store, checkpoint: str, wanted: Collection[str], meter: Meter) -> Listed:
    """Lists a checkpoint's folder, however many keys it holds, and keeps what is wanted of it."""
    sizes: dict[str, int] = {}
    archived: list[str] = []
    manifests: list[str] = []
    for entry in store.entries(checkpoint):
        meter.add(0)
        if entry.key in wanted:
            sizes[entry.key] = entry.size
            if entry.archived:
                archived.append(entry.key)
        if is_manifest_key(entry.key, checkpoint):
            manifests.append(entry.key)
            if len(manifests) > MANIFESTS:
                raise TooLarge(f"{checkpoint} holds more than {MANIFESTS} manifests")
    return Listed(sizes, tuple(sorted(archived)), tuple(sorted(manifests)))


def is_manifest_key(key: str, checkpoint: str) -> bool:
    """Whether a key is a manifest in a checkpoint's own directory."""
    folder, _, name = key.rpartition("/")
    return folder == checkpoint and is_manifest(name)


async def compare(
    store: Store, owed: Sequence[Owed], depth: Depth, run: Runner, meter: Meter, *, manifests: bool = False
) -> Tally:
    """Compares owed checkpoints, file by file, with what the store has.

    Args:
        store: the prefix that holds them.
        owed: what must be there.
        depth: how deep it is compared.
        run: runs blocking calls.
        meter: counts what is streamed.
        manifests: whether the manifests of a complete checkpoint are read for files that `owed` leaves out.
    """
    tally = Tally()
    expiring: list[str] = []

    async def one(item: Owed) -> None:
        keys = {f"{item.checkpoint}/{e.path}" for e in item.files}
        listed = await run(list_checkpoint, store, item.checkpoint, keys, meter)
        bad = settlement.missing_files(item, listed.sizes, compare_sizes=depth is not Depth.LISTING)
        if depth is Depth.CHECKSUMS:
            known = {m.file for m in bad}

            async def file(entry: FileEntry) -> None:
                found = await run(check_file, store, f"{item.checkpoint}/{entry.path}", entry, meter.add)
                if found.problem:
                    bad.append(settlement.missing(item.trial, item.checkpoint, entry.path, found.problem))
                elif found.expires:
                    words = f"the bucket's lifecycle will remove {item.checkpoint}/{entry.path} ({found.expires[:200]})"
                    expiring.append(f"{words}: take the run's prefix out of the rule")

            await bounded([e for e in item.files if e.path not in known], file)
        else:
            for key in listed.archived:
                await run(store.head, key)  # says whether it was restored
        absent = {f"{m.checkpoint}/{m.file}" for m in bad if m.problem == "Absent"}
        if absent and (coming := sorted(absent & await run(store.uploading, item.checkpoint))):
            raise Unavailable(f"{coming[0]} is still being uploaded: the look is made again when it is complete")
        if bad:
            tally.missing += sorted(bad, key=lambda m: m.file)
            if absent and not tally.advice:
                tally.advice = await run(store.advice, min(absent))
            return
        if manifests:
            await _unclaimed(store, item, listed.manifests, run, tally)
        tally.verified += 1
        tally.files += len(item.files)
        tally.bytes += sum(e.size for e in item.files)

    await bounded(owed, one)
    tally.advice = tally.advice or min(expiring, default="")
    tally.missing.sort(key=lambda m: (m.trial, m.checkpoint, m.file))
    return tally


async def _unclaimed(store: Store, item: Owed, keys: Sequence[str], run: Runner, tally: Tally) -> None:
    """Notes a file that a checkpoint's own manifests name, or must name, and the receipt leaves out."""
    claimed = {e.path for e in item.files}
    names = {key[len(item.checkpoint) + 1 :]: key for key in keys}
    manifests: dict[str, Manifest | None] = {n: await run(read_manifest, store, key) for n, key in names.items()}
    left_out = {n for n, _ in manifest_problems(names, manifests)}
    left_out |= {e.path for m in manifests.values() if m is not None for e in m.files} - claimed
    if left_out:
        words = f"the receipt leaves out {item.checkpoint}/{min(left_out)}, which the checkpoint's manifest names"
        tally.left_out = min(tally.left_out or words, words)


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
    derived = await derive(store, target, run, meter)
    owed = owed_checkpoints(
        derived.states, target.require, target.mode, resumable=receipt.outcome in RESUMABLE_OUTCOMES
    )
    problem = settlement.owed_difference(receipt.owed, owed)
    if problem:
        return _with(base, Proof.INVALID, "ReceiptInvalid", problem)
    tally = await compare(store, receipt.owed, target.depth, run, meter, manifests=True)
    if not tally.missing and tally.left_out:
        return _with(base, Proof.INVALID, "ReceiptInvalid", tally.left_out)
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
        advice=tally.advice,
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
