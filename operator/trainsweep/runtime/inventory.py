"""The settlement of an attempt that left no receipt: an inventory made from Train's and our own state in the store.

Two equal inventories, some time apart, show that nobody writes any more. It is JSON only: nothing is ever unpickled,
and nothing is ever written to the store.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from trainsweep.api.workload import Depth
from trainsweep.contract.documents import FileEntry, Manifest, Owed
from trainsweep.contract.layout import MANIFEST, Location, relative_key
from trainsweep.contract.manifests import manifest_problems
from trainsweep.contract.owed import OwedCheckpoint, owed_checkpoints
from trainsweep.core import settlement
from trainsweep.core.model import Proof, Settlement
from trainsweep.runtime.documents_reader import BadDocument, read_manifest
from trainsweep.runtime.store import Absent, Store, StoreError, TooLarge
from trainsweep.runtime.store_s3 import open_store
from trainsweep.runtime.verify import (
    MANIFESTS,
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
    is_manifest_key,
    verify_receipt,
)

APART_SECONDS = 15.0
LISTINGS = 5
CHECKPOINTS_AT_ONCE = 2
BARE_FILES = 10_000
"""Files of a checkpoint without a manifest."""
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class _Seen:
    derived: Derived
    owed: tuple[OwedCheckpoint, ...]
    prints: tuple[tuple[str, int, int, int], ...]
    """Checkpoint, number of objects, bytes, and a digest of keys and sizes that does not depend on their order."""


def _print(store: Store, checkpoint: str, meter: Meter) -> tuple[str, int, int, int]:
    count = size = mixed = 0
    for entry in store.entries(checkpoint):
        meter.add(0)
        count, size = count + 1, size + entry.size
        mixed ^= int.from_bytes(hashlib.blake2b(f"{entry.key}\n{entry.size}".encode(), digest_size=16).digest(), "big")
    return checkpoint, count, size, mixed


async def _see(store: Store, target: Target, run: Runner, meter: Meter) -> _Seen:
    derived = await derive(store, target, run, meter)
    # An attempt without a receipt did not end well: its unfinished trials can go on from their newest checkpoint.
    owed = owed_checkpoints(derived.states, target.require, target.mode, resumable=True)
    prints: list[tuple[str, int, int, int]] = []

    async def one(item: OwedCheckpoint) -> None:
        prints.append(await run(_print, store, item.checkpoint, meter))

    await bounded(owed, one)
    return _Seen(derived, tuple(owed), tuple(sorted(prints)))


def files_of(
    store: Store, checkpoint: str, meter: Meter
) -> tuple[list[FileEntry], list[tuple[str, Literal["Absent", "WrongChecksum"]]]]:
    """The files that a checkpoint must have, and what is wrong with its manifests."""
    keys: list[str] = []
    bare: list[FileEntry] = []
    for entry in store.entries(checkpoint):
        meter.add(0)
        if is_manifest_key(entry.key, checkpoint):
            keys.append(entry.key)
            bare.clear()
        elif not keys:
            bare.append(FileEntry(path=relative_key(entry.key[len(checkpoint) + 1 :]), size=entry.size))
        if len(keys) > MANIFESTS or len(bare) > BARE_FILES:
            raise TooLarge(f"{checkpoint} holds too many objects without a manifest that names them")
    if not keys:
        # Saved without our helper: what is listed is all that can be known of it.
        return sorted(bare, key=lambda e: e.path), []
    files: dict[str, FileEntry] = {}
    manifests: dict[str, Manifest | None] = {}
    for key in keys:
        name = key[len(checkpoint) + 1 :]
        try:
            manifest = manifests[name] = read_manifest(store, key)
        except (BadDocument, Absent):
            manifests[name] = None
            continue
        files.update({e.path: e for e in manifest.files})
    return list(files.values()), manifest_problems(manifests, manifests)


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
    seen = await _see(store, target, run, meter)
    for _ in range(LISTINGS):
        await sleep(apart)
        again = await _see(store, target, run, meter)
        if again == seen:
            break
        seen = again
    else:
        message = "the run is still being written to; it is looked at again"
        return Settlement(**{**base.__dict__, "reason": "StoreUnreadable", "message": message, "made_at": time.time()})
    told = {"trials": seen.derived.counts, "best": seen.derived.best}
    base = Settlement(**{**base.__dict__, **told})
    tally = Tally()

    async def one(item: OwedCheckpoint) -> None:
        """One checkpoint at a time: what is known of its files is let go before the next ones are looked at."""
        files, bad = await run(files_of, store, item.checkpoint, meter)
        if not files and not bad:
            bad = [(MANIFEST, "Absent")]
        if bad:
            tally.missing += [settlement.missing(item.trial, item.checkpoint, name, why) for name, why in bad]
            return
        owed = Owed(trial=item.trial, step=item.step, value=item.value, checkpoint=item.checkpoint, files=files)
        depth = target.depth if all(f.checksums for f in files) else _no_deeper_than_sizes(target)
        done = await compare(store, [owed], depth, run, meter)
        tally.verified += done.verified
        tally.files += done.files
        tally.bytes += done.bytes
        tally.missing += done.missing
        tally.advice = tally.advice or done.advice

    await bounded(seen.owed, one, CHECKPOINTS_AT_ONCE)
    tally.missing.sort(key=lambda m: (m.trial, m.checkpoint, m.file))
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
