"""One process of the operator: the real observe(), decide() and apply() over the doubles, with faults at every call."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainsweep.contract.documents import End, Progress
from trainsweep.core.decide import decide
from trainsweep.core.model import Observed, Plan, Proof, Settle, Settlement, StoreView, Unreadable
from trainsweep.render.kuberay import KubeRay
from trainsweep.runtime.access import Access
from trainsweep.runtime.apply import Applier, RefusedError
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import SWEEP, Conflict, Kind, KubeError, Object, Unavailable
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.observe import Observer
from trainsweep.runtime.recorder import Recorder

if TYPE_CHECKING:
    from tests.simulation.world import World

KEY = SweepKey("team", "digits")
_METRICS = Metrics()


class Crash(BaseException):
    """SIGKILL."""


def finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("something waited")


@dataclass
class Odds:
    """Chances of a fault at each call."""

    crash: float = 0.0
    error: float = 0.0
    lost_reply: float = 0.0
    conflict: float = 0.0
    interleave: float = 0.0


class FaultyKube:
    """The kube port over the server; each call may fail before, after, or let the world go on first."""

    def __init__(self, world: World) -> None:
        self._world, self._server = world, world.server

    def _before(self, verb: str, kind: Kind, name: str) -> None:
        world = self._world
        odds, rng = world.odds, world.rng
        if odds.interleave and rng.random() < odds.interleave:
            world.advance(world.now + rng.choice((0.05, 0.5, 2.0)))
        if kind is SWEEP and verb != "get" and rng.random() < odds.conflict:
            world.someone_annotates()
        draw = rng.random()
        if draw < odds.crash:
            raise Crash(f"before {verb} {kind.plural} {name}")
        if draw < odds.crash + odds.error:
            raise Unavailable("503")

    def _after(self, verb: str, kind: Kind, name: str) -> None:
        draw = self._world.rng.random()
        if draw < self._world.odds.crash:
            raise Crash(f"after {verb} {kind.plural} {name}")
        if draw < self._world.odds.crash + self._world.odds.lost_reply:
            raise Unavailable("the reply was lost")

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._before("get", kind, name)
        return self._server.get(kind, name)

    async def page(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, token: str = ""
    ) -> tuple[list[Object], str]:
        self._before("page", kind, labels)
        return self._server.selected(kind, labels), ""

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        name = body["metadata"]["name"]
        self._before("create", kind, name)
        self._world.checks.on_create(kind, body)
        made = self._server.create(kind, body)
        self._after("create", kind, name)
        return made

    async def merge_patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        self._before("patch", kind, name)
        before = self._server.get(kind, name)
        self._world.checks.on_patch(kind, before, body)
        made = self._server.patch(kind, name, body)
        self._world.checks.on_written(kind, "patch", before, made)
        self._after("patch", kind, name)
        return made

    async def put_status(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        self._before("put_status", kind, name)
        before = self._server.get(kind, name)
        made = self._server.put_status(kind, name, body)
        self._world.checks.on_written(kind, "put_status", before, made)
        self._after("put_status", kind, name)
        return made

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        self._before("delete", kind, name)
        before = self._server.get(kind, name)
        self._world.checks.on_delete(kind, before)
        self._server.delete(kind, name, uid=uid)
        self._world.checks.on_written(kind, "delete", before, None)
        self._after("delete", kind, name)


@dataclass
class FakeLooks:
    """Looks at the store double, in the background of the world's clock; lost with the process."""

    world: World
    process: int
    skew: float
    settlements: dict[str, Settlement] = field(default_factory=dict)
    flights: set[tuple[str, str]] = field(default_factory=set)
    answered: bool = False

    async def view(self, key: SweepKey, access: Access, attempt_id: str, *, ended: bool) -> StoreView:
        store, now = self.world.store, self.world.now
        progress: Progress | Unreadable | None = store.progress
        end: End | Unreadable | None = store.ends.get(attempt_id)
        if not self.answered and self.world.rng.random() < 0.3:
            progress = end = Unreadable("the store has not answered yet")
        elif not store.readable(now):
            progress = end = Unreadable("503 Slow Down")
        self.answered = True
        settling = any(a == attempt_id for a, _ in self.flights)
        return StoreView(progress, end if ended else None, self.settlements.get(attempt_id), settling)

    def start(self, key: SweepKey, access: Access, wanted: Settle) -> None:
        flight = (wanted.attempt_id, wanted.digest)
        if flight in self.flights:
            return
        self.flights.add(flight)
        inventory = wanted.inventory and wanted.attempt_id not in self.world.store.receipts
        pause = self.world.rng.uniform(15, 25) if inventory else self.world.rng.uniform(0.5, 8)
        self.world.at(self.world.now + pause, lambda: self._done(wanted))

    def _done(self, wanted: Settle) -> None:
        if self.world.process != self.process:
            return
        self.flights.discard((wanted.attempt_id, wanted.digest))
        store, now = self.world.store, self.world.now
        writing = (
            any(d.alive and d.attempt == wanted.attempt_id for d in self.world.drivers) and now - store.written_at < 20
        )
        found = store.look(wanted.attempt_id, wanted.digest, wanted.inventory, now, writing)
        found = Settlement(**{**found.__dict__, "made_at": now + self.skew})
        self.world.note(f"look {wanted.attempt_id} {found.source} {found.proof} {found.message}")
        self.settlements[wanted.attempt_id] = found
        self.world.enqueue(0.1)

    def refuse(self, key: SweepKey, uid: str, wanted: Settle, why: Unreadable) -> None:
        self.settlements[wanted.attempt_id] = Settlement(
            wanted.attempt_id, "Receipt", wanted.digest, Proof.UNKNOWN, message=why.message, made_at=self.world.now
        )

    def settlement(self, key: SweepKey, uid: str, attempt_id: str) -> Settlement | None:
        return self.settlements.get(attempt_id)


class Process:
    """The operator between two deaths."""

    def __init__(self, world: World) -> None:
        self.world = world
        skew = world.rng.uniform(-world.skew, world.skew)
        self.now = lambda: world.now + skew
        kube: Any = FaultyKube(world)
        looks: Any = FakeLooks(world, world.process, skew)
        memory = Memory()
        self.memory, self.looks = memory, looks
        self.observer = Observer(kube, Classes(kube), looks, memory, KubeRay(), now=self.now)
        self.applier = Applier(kube, looks, Recorder(kube), memory, _METRICS, now=self.now)
        self.failures = 0

    def reconcile(self) -> float | None:
        """One pass as the reconciler makes it; seconds until the next one, None: none is due."""
        world = self.world
        try:
            observed: Observed | None = finish(self.observer.observe(KEY))
            if observed is None:
                self.memory.forget(KEY)
                return None
            now = self.now()
            plan: Plan = decide(observed, now)
            world.planned(observed, plan)
            finish(self.applier.apply(observed, plan))
        except Conflict:
            return 0.2
        except (KubeError, RefusedError):
            self.failures += 1
            return float(min(30.0, 0.5 * 2**self.failures))
        self.failures = 0
        return None if plan.wake_at is None else max(0.2, plan.wake_at - now)
