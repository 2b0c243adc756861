"""Everything that is read from the store, in the background: heartbeats, last words and second looks.

A pass never waits long for a store. A look runs in a few threads of its own, under a total time-out, and a namespace
can only have a few at once: a hostile or a slow prefix delays its own sweep and no other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainsweep.contract.documents import End, Progress
from trainsweep.contract.layout import Location
from trainsweep.core.model import ExportLook, ExportState, Proof, Settle, Settlement, StoreView, Unreadable
from trainsweep.runtime import documents_reader, inventory, verify
from trainsweep.runtime.access import Access
from trainsweep.runtime.crash import crash_point
from trainsweep.runtime.export_look import look_at_export
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.store import Absent, Denied, Store, StoreError
from trainsweep.runtime.store_s3 import open_store

_log = logging.getLogger(__name__)
T = TypeVar("T")

FRESH_SECONDS = 3.0
PATIENCE_SECONDS = 3.0
LOOKS, LOOKS_PER_NAMESPACE, READS_PER_ENDPOINT = 16, 4, 8
EXPORT = "export"
"""Name of the flight that looks at an export; those at receipts are named by digests."""
NOT_ASKED = Unreadable("the store has not answered yet")


@dataclass
class _Sweep:
    """What is known of the current attempt of one sweep."""

    uid: str
    attempt_id: str
    progress: Progress | Unreadable | None = None
    started: bool = False
    end: End | Unreadable | None = None
    read_at: float | None = None
    read_end: bool = False
    slow: bool = False
    reading: asyncio.Task[None] | None = None
    flights: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    settlement: Settlement | None = None
    export: ExportLook | None = None


class Looks:
    """Background reads by sweep; `notify` is called when a result is there that a pass has not seen."""

    def __init__(
        self,
        notify: Callable[[SweepKey], None],
        metrics: Metrics,
        *,
        opener: Callable[..., Store] = open_store,
        look_seconds: float = 1800.0,
        apart_seconds: float = inventory.APART_SECONDS,
    ) -> None:
        self._notify, self._metrics, self._open = notify, metrics, opener
        self._look_seconds, self._apart = look_seconds, apart_seconds
        self._sweeps: dict[SweepKey, _Sweep] = {}
        self._readers: dict[str, ThreadPoolExecutor] = {}
        self._all = asyncio.Semaphore(LOOKS)
        self._by_namespace: dict[str, asyncio.Semaphore] = {}

    def __contains__(self, key: SweepKey) -> bool:
        return key in self._sweeps

    def keys(self) -> set[SweepKey]:
        """Sweeps of which something is held."""
        return set(self._sweeps)

    def forget(self, key: SweepKey) -> None:
        """The sweep is gone; what is still under way for it is dropped when it ends."""
        held = self._sweeps.pop(key, None)
        if held is not None:
            for task in held.flights.values():
                task.cancel()

    async def view(self, key: SweepKey, access: Access, attempt_id: str, *, ended: bool) -> StoreView:
        """What is known of an attempt. Waits a moment for a fresh heartbeat, unless its store was slow the last time.

        Args:
            key: the sweep.
            access: its run's prefix.
            attempt_id: its newest attempt.
            ended: whether the attempt is over: then its last word is read too, and the heartbeat once more.
        """
        held = self._held(key, access, attempt_id)
        now = time.monotonic()
        due = held.read_at is None or now - held.read_at >= FRESH_SECONDS
        if held.reading is None and (due or (ended and not held.read_end)):
            held.reading = asyncio.create_task(self._read(key, held, access, ended))
        if held.reading is not None and not held.slow:
            done, _ = await asyncio.wait({held.reading}, timeout=PATIENCE_SECONDS)
            held.slow = not done
        progress = held.progress if held.read_at is not None else NOT_ASKED
        end = held.end if held.read_end or isinstance(held.end, Unreadable) else NOT_ASKED
        return StoreView(
            progress, end if ended else None, held.settlement, bool(held.flights), held.export, held.started
        )

    def start(self, key: SweepKey, access: Access, wanted: Settle) -> None:
        """Starts a second look, unless the same one is under way."""
        held = self._held(key, access, wanted.attempt_id)
        flight = EXPORT if wanted.export else wanted.digest
        if flight not in held.flights:
            held.flights[flight] = asyncio.create_task(self._look(key, held, access, wanted, flight))

    def refuse(self, key: SweepKey, uid: str, wanted: Settle, why: Unreadable) -> None:
        """Records that a look must not be made: the class does not allow the place."""
        held = self._sweeps.get(key)
        if held is None or (held.uid, held.attempt_id) != (uid, wanted.attempt_id):
            held = self._sweeps[key] = _Sweep(uid, wanted.attempt_id)
        if wanted.export:
            held.export = ExportLook(wanted.attempt_id, ExportState.UNKNOWN, why.message, made_at=time.time())
            return
        held.settlement = Settlement(
            wanted.attempt_id,
            "Receipt",
            wanted.digest,
            Proof.UNKNOWN,
            reason="StoreDenied",
            message=why.message,
            denied=True,
            made_at=time.time(),
        )

    def settlement(self, key: SweepKey, uid: str, attempt_id: str) -> Settlement | None:
        """The newest result for an attempt, without asking for more."""
        held = self._sweeps.get(key)
        return held.settlement if held is not None and (held.uid, held.attempt_id) == (uid, attempt_id) else None

    def _held(self, key: SweepKey, access: Access, attempt_id: str) -> _Sweep:
        held = self._sweeps.get(key)
        if held is None or (held.uid, held.attempt_id) != (access.sweep.uid, attempt_id):
            self.forget(key)
            held = self._sweeps[key] = _Sweep(access.sweep.uid, attempt_id)
        return held

    def _reader(self, endpoint: str) -> ThreadPoolExecutor:
        """Threads by endpoint: one that hangs holds only its own. Endpoints are few, the classes name them."""
        if endpoint not in self._readers:
            self._readers[endpoint] = ThreadPoolExecutor(READS_PER_ENDPOINT, thread_name_prefix="store-read")
        return self._readers[endpoint]

    def _opened(self, access: Access, location: Location) -> Store:
        return self._open(location, access.region, access.endpoint, access.role)

    def _copies(self, access: Access) -> Store | str:
        """The store of the export's place, or why it is not looked at."""
        if not isinstance(access.export, Location):
            return access.export or "the sweep exports nothing"
        return self._opened(access, access.export)

    async def _read(self, key: SweepKey, held: _Sweep, access: Access, ended: bool) -> None:
        before = (held.progress, held.started, held.end)
        started = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            progress, begun, end = await loop.run_in_executor(
                self._reader(access.endpoint), self._read_now, access, held.attempt_id, ended
            )
            held.progress, held.started = progress, begun
            if ended:
                held.end, held.read_end = end, not isinstance(end, Unreadable)
        finally:
            unseen = held.slow
            held.read_at, held.reading = time.monotonic(), None
            # A store that was slow is not waited for the next time either, until it was quick once.
            held.slow = held.read_at - started > PATIENCE_SECONDS
        if unseen and before != (held.progress, held.started, held.end) and self._sweeps.get(key) is held:
            self._notify(key)

    def _read_now(
        self, access: Access, attempt_id: str, ended: bool
    ) -> tuple[Progress | Unreadable | None, bool, End | Unreadable | None]:
        def guarded(read: Callable[[Store], T]) -> T | Unreadable | None:
            try:
                return read(self._opened(access, access.location))
            except Absent:
                return None
            except StoreError as error:
                return Unreadable(str(error)[:1024], isinstance(error, Denied))
            except Exception as error:
                _log.exception("reading %s", access.location.uri)
                return Unreadable(f"{type(error).__name__}: {error}"[:1024])

        progress = guarded(documents_reader.read_progress)
        begun: bool | Unreadable | None = False
        if progress is None or (isinstance(progress, Progress) and progress.attempt_id != attempt_id):
            begun = guarded(lambda store: documents_reader.read_start(store, attempt_id))
            progress = begun if isinstance(begun, Unreadable) else progress
        end = guarded(lambda store: documents_reader.read_end(store, attempt_id)) if ended else None
        return progress, begun is True, end

    async def _look(self, key: SweepKey, held: _Sweep, access: Access, wanted: Settle, flight: str) -> None:
        spaces = self._by_namespace.setdefault(key.namespace, asyncio.Semaphore(LOOKS_PER_NAMESPACE))
        started = time.monotonic()
        meter = verify.Meter()
        try:
            async with spaces, self._all:
                started = time.monotonic()
                found = await self._look_now(access, wanted, meter)
            if isinstance(found, ExportLook):
                held.export = found
                self._metrics.looks.labels("Export", found.state.value).inc()
                verdict = found.state.value
            else:
                held.settlement = found
                self._metrics.looks.labels(found.source, found.proof.value).inc()
                verdict = found.proof.value
            what = "export" if wanted.export else "attempt"
            _log.info("%s: look at %s %s: %s %s", key, what, wanted.attempt_id, verdict, found.message)
        finally:
            self._metrics.look_seconds.observe(time.monotonic() - started)
            self._metrics.look_bytes.inc(meter.streamed)
            meter.cancelled = True
            held.flights.pop(flight, None)
        if self._sweeps.get(key) is held:
            self._notify(key)

    async def _look_now(self, access: Access, wanted: Settle, meter: verify.Meter) -> Settlement | ExportLook:
        pool = ThreadPoolExecutor(verify.PARALLEL, thread_name_prefix="look")
        loop = asyncio.get_running_loop()

        async def run(call: Callable[..., T], *args: Any) -> T:
            return await loop.run_in_executor(pool, lambda: call(*args))

        target = target_of(access, wanted.attempt_id)
        try:
            async with asyncio.timeout(self._look_seconds):
                store = await run(self._opened, access, access.location)
                crash_point("while-verifying")
                if wanted.export:
                    return await look_at_export(store, await run(self._copies, access), target, run, meter)
                return await inventory.look(
                    store,
                    target,
                    digest=wanted.digest,
                    inventory=wanted.inventory,
                    run=run,
                    meter=meter,
                    apart=self._apart,
                )
        except (StoreError, TimeoutError) as error:
            if wanted.export:
                words = str(error) or "the look took too long and is made again"
                return ExportLook(wanted.attempt_id, ExportState.UNKNOWN, words, made_at=time.time())
            return verify.failed(target, "Receipt", wanted.digest, error)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def target_of(access: Access, attempt_id: str) -> verify.Target:
    """Whose checkpoints a look is at, from the resolved spec."""
    spec = access.spec
    return verify.Target(
        sweep=access.sweep,
        attempt_id=attempt_id,
        metric=spec.objective.metric,
        mode=spec.objective.mode.value,
        require=spec.checkpoints.require,
        depth=spec.checkpoints.verify.depth,
        expected_trials=access.expected_trials,
    )
