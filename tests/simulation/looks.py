"""Looks at the store double, in the background of the world's clock; lost with the process that made them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainsweep.contract.documents import End, Progress
from trainsweep.core.model import Proof, Settle, Settlement, StoreView, Unreadable
from trainsweep.runtime.access import Access
from trainsweep.runtime.keys import SweepKey

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

THROTTLED = 0.1
"""Share of the looks of which one of the many requests is turned away, while the few of a pass are answered."""


@dataclass
class LooksDouble:
    """Stands for `runtime.looks.Looks`."""

    world: World
    process: Process
    settlements: dict[str, Settlement] = field(default_factory=dict)
    flights: set[tuple[str, str]] = field(default_factory=set)
    answered: bool = False

    def __contains__(self, key: SweepKey) -> bool:
        return bool(self.settlements)

    def keys(self) -> set[SweepKey]:
        return {self.world.key} if self.settlements or self.flights else set()

    def forget(self, key: SweepKey) -> None:
        self.settlements.clear()
        self.flights.clear()

    async def view(self, key: SweepKey, access: Access, attempt_id: str, *, ended: bool) -> StoreView:
        self._within(access)
        store, now = self.world.store, self.world.now
        progress: Progress | Unreadable | None = store.progress
        end: End | Unreadable | None = store.ends.get(attempt_id)
        if not self.answered and self.world.rng.random() < 0.3:
            progress = end = Unreadable("the store has not answered yet")
        elif now < self.world.denied_until:
            progress = end = Unreadable("403 Forbidden", denied=True)
        elif not store.readable(now):
            progress = end = Unreadable("503 Slow Down")
        self.answered = True
        own = isinstance(progress, Progress) and progress.attempt_id == attempt_id
        begun = attempt_id in store.started and not own and not isinstance(progress, Unreadable)
        settling = any(a == attempt_id for a, _ in self.flights)
        return StoreView(progress, end if ended else None, self.settlements.get(attempt_id), settling, started=begun)

    def _within(self, access: Access) -> None:
        """I10: only what the class allows is read. There is no way to write."""
        if not access.location.uri.startswith(self.world.allowed_prefix + "/"):
            self.world.checks.fail("I10", f"{access.location.uri} is read, and the class does not allow it")

    def start(self, key: SweepKey, access: Access, wanted: Settle) -> None:
        self._within(access)
        flight = (wanted.attempt_id, wanted.digest)
        if flight in self.flights:
            return
        self.flights.add(flight)
        inventory = wanted.inventory and wanted.attempt_id not in self.world.store.receipts
        pause = self.world.rng.uniform(15, 25) if inventory else self.world.rng.uniform(0.5, 8)
        self.world.at(self.world.now + pause, lambda: self._done(key, wanted))

    def _done(self, key: SweepKey, wanted: Settle) -> None:
        flight = (wanted.attempt_id, wanted.digest)
        if not self.process.alive or flight not in self.flights:
            return
        self.flights.discard(flight)
        store, now = self.world.store, self.world.now
        writing = (
            any(d.alive and d.attempt == wanted.attempt_id for d in self.world.drivers) and now - store.written_at < 20
        )
        if now < self.world.denied_until:
            refused = Settlement(wanted.attempt_id, "Receipt", wanted.digest, Proof.UNKNOWN, message="403 Forbidden")
            found = replace(refused, denied=True, reason="StoreDenied")
        else:
            slow = self.world.busy.random() < THROTTLED and not self.world.faults.stopped
            found = store.look(wanted.attempt_id, wanted.digest, wanted.inventory, now, writing, slow)
        found = replace(found, made_at=self.process.now())
        self.world.note(f"look {wanted.attempt_id} {found.source} {found.proof} {found.message}")
        self.settlements[wanted.attempt_id] = found
        self.process.queue.add(key)

    def refuse(self, key: SweepKey, uid: str, wanted: Settle, why: Unreadable) -> None:
        self.settlements[wanted.attempt_id] = Settlement(
            wanted.attempt_id,
            "Receipt",
            wanted.digest,
            Proof.UNKNOWN,
            reason="StoreDenied",
            message=why.message,
            denied=True,
            made_at=self.process.now(),
        )

    def settlement(self, key: SweepKey, uid: str, attempt_id: str) -> Settlement | None:
        return self.settlements.get(attempt_id)
