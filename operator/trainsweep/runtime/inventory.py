"""The settlement of an attempt that left no receipt: an inventory made from Train's and our own state in the store.

Two equal inventories, some time apart, show that nobody writes any more. It is JSON only: nothing is ever unpickled,
and nothing is ever written to the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trainsweep.api.workload import Depth
from trainsweep.contract.documents import FileEntry, MissingFile, Owed
from trainsweep.contract.layout import MANIFEST, Location, relative_key
from trainsweep.contract.owed import OwedCheckpoint, owed_checkpoints
from trainsweep.core import settlement
from trainsweep.core.model import Proof, Settlement
from trainsweep.runtime.documents_reader import BadDocument, read_manifest
from trainsweep.runtime.store import Absent, Entry, Store, StoreError
from trainsweep.runtime.store_s3 import open_store
from trainsweep.runtime.verify import (
    CHECKPOINT_FILES,
    Derived,
    Meter,
    Runner,
    Tally,
    Target,
    bounded,
    compare,
    concluded,
    derive,
    failed,
    in_thread,
    manifest_keys,
    verify_receipt,
)

APART_SECONDS = 15.0
LISTINGS = 5
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class _Seen:
    derived: Derived
    owed: tuple[OwedCheckpoint, ...]
    listings: tuple[tuple[str, tuple[Entry, ...]], ...]


async def _see(store: Store, target: Target, run: Runner) -> _Seen:
    derived = await derive(store, target, run)
    # An attempt without a receipt did not end well: its unfinished trials can go on from their newest checkpoint.
    owed = owed_checkpoints(derived.states, target.require, target.mode, resumable=True)
    listings: dict[str, tuple[Entry, ...]] = {}

    async def one(item: OwedCheckpoint) -> None:
        listings[item.checkpoint] = tuple(await run(store.listing, item.checkpoint, CHECKPOINT_FILES))

    await bounded(owed, one)
    return _Seen(derived, tuple(owed), tuple(sorted(listings.items())))


async def _files_of(
    store: Store, checkpoint: str, listed: Sequence[Entry], run: Runner
) -> tuple[list[FileEntry], list[str]]:
    """The files that a checkpoint must have, and what is wrong with its manifests."""
    keys = manifest_keys(listed, checkpoint)
    if not keys:
        # Saved without our helper: what is listed is all that can be known of it.
        return [FileEntry(path=relative_key(e.key[len(checkpoint) + 1 :]), size=e.size) for e in listed], []
    files: dict[str, FileEntry] = {}
    bad: list[str] = []
    for key in keys:
        try:
            manifest = await run(read_manifest, store, key)
        except (BadDocument, Absent):
            bad.append(key[len(checkpoint) + 1 :])
            continue
        files.update({e.path: e for e in manifest.files})
    return list(files.values()), bad


async def take_inventory(
    store: Store,
    target: Target,
    run: Runner,
    meter: Meter,
    *,
    sleep: Sleep = asyncio.sleep,
    apart: float = APART_SECONDS,
) -> Settlement:
    """The inventory of a run without a receipt.

    Raises:
        StoreError: where it could not be read.
    """
    base = Settlement(target.attempt_id, "Inventory", "", Proof.UNKNOWN, made_at=time.time())
    seen = await _see(store, target, run)
    for _ in range(LISTINGS):
        await sleep(apart)
        again = await _see(store, target, run)
        if again == seen:
            break
        seen = again
    else:
        message = "the run is still being written to; it is looked at again"
        return Settlement(**{**base.__dict__, "reason": "StoreUnreadable", "message": message, "made_at": time.time()})
    told = {"trials": seen.derived.counts, "best": seen.derived.best}
    base = Settlement(**{**base.__dict__, **told})
    listings = dict(seen.listings)
    wanted: list[Owed] = []
    missing: list[MissingFile] = []
    for item in seen.owed:
        files, bad = await _files_of(store, item.checkpoint, listings[item.checkpoint], run)
        missing += [settlement.missing(item.trial, item.checkpoint, name, "WrongChecksum") for name in bad]
        if bad:
            continue
        if not files:
            missing.append(settlement.missing(item.trial, item.checkpoint, MANIFEST, "Absent"))
            continue
        wanted.append(Owed(trial=item.trial, step=item.step, value=item.value, checkpoint=item.checkpoint, files=files))
    tally = Tally()
    with_sums = [o for o in wanted if all(f.checksums for f in o.files)]
    bare = [o for o in wanted if not all(f.checksums for f in o.files)]
    for part, depth in ((with_sums, target.depth), (bare, _no_deeper_than_sizes(target))):
        done = await compare(store, part, depth, run, meter)
        tally = Tally(
            tally.verified + done.verified,
            tally.files + done.files,
            tally.bytes + done.bytes,
            tally.missing + done.missing,
        )
    tally.missing = sorted([*tally.missing, *missing], key=lambda m: (m.trial, m.checkpoint, m.file))
    return concluded(base, len(seen.owed), tally)


def _no_deeper_than_sizes(target: Target) -> Depth:
    return Depth.SIZES if target.depth is Depth.CHECKSUMS else target.depth


async def look(
    store: Store,
    target: Target,
    *,
    digest: str = "",
    inventory: bool = False,
    run: Runner,
    meter: Meter | None = None,
    sleep: Sleep = asyncio.sleep,
    apart: float = APART_SECONDS,
) -> Settlement:
    """The second look: at the receipt, or an inventory where there is none and one is asked for. It never raises.

    Args:
        store: the run's prefix.
        target: whose checkpoints.
        digest: what the driver announced, "" where it did not.
        inventory: whether an inventory may be made.
        run: runs blocking calls.
        meter: counts what is streamed.
        sleep: waits between two listings.
        apart: seconds between them.
    """
    meter = meter or Meter()
    source = "Receipt"
    try:
        try:
            return await verify_receipt(store, target, digest, run, meter)
        except Absent:
            if not inventory:
                raise
        source = "Inventory"
        return await take_inventory(store, target, run, meter, sleep=sleep, apart=apart)
    except Exception as error:
        return failed(target, source, digest, error)


def verify_run(
    location: Location,
    target: Target,
    *,
    region: str = "",
    endpoint: str = "",
    digest: str = "",
    inventory: bool = False,
) -> Settlement:
    """The same look for whoever has no event loop, such as the command line. Never raises StoreError."""

    async def run() -> Settlement:
        try:
            store = await in_thread(open_store, location, region, endpoint)
        except StoreError as error:
            return failed(target, "Receipt", digest, error)
        return await look(store, target, digest=digest, inventory=inventory, run=in_thread)

    return asyncio.run(run())
