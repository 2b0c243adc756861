"""One process of the operator, made of its real parts: queue, workers, reconciler, observer, applier, resync, orphans.

Doubles are the API server's client, kopf's watches and the reads of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.faults import APPLYING
from tests.simulation.faulty_kube import Crash, FaultyKube
from tests.simulation.informer import Informer
from tests.simulation.looks import LooksDouble
from trainsweep.core.decide import decide
from trainsweep.core.model import Observed, Plan
from trainsweep.render.kuberay import KubeRay
from trainsweep.runtime.apply import Applier, RefusedError
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.glance import Glances
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import KubeError
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.observe import Observer
from trainsweep.runtime.reconciler import Reconciler
from trainsweep.runtime.recorder import Recorder
from trainsweep.runtime.resync import Orphans, repeat, resync
from trainsweep.runtime.settings import Settings
from trainsweep.runtime.workqueue import WorkQueue

if TYPE_CHECKING:
    from tests.simulation.world import World

WORKERS = 2
_METRICS = Metrics()
_SETTINGS = Settings()


class Process:
    """The operator between two deaths."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number, self.alive = world, number, True
        skew = world.rng.uniform(-world.skew, world.skew)
        self.now: Callable[[], float] = lambda: world.now + skew
        kube: Any = FaultyKube(world, self)
        self.queue: WorkQueue[SweepKey] = WorkQueue(draw=world.rng.random)
        self.memory, self.classes = Memory(), Classes(kube, clock=world.clock.time)
        looks: Any = LooksDouble(world, self)
        self.looks: LooksDouble = looks
        observer = Observer(kube, self.classes, looks, self.memory, KubeRay(), now=self.now)
        self._glances = Glances(observer.observe, looks, self.memory, now=self.now)
        recorder = Recorder(kube, now=self.now)
        self._applier = Applier(kube, looks, recorder, self.memory, _METRICS, now=self.now)
        reconciler = Reconciler(
            self._observe,
            self._decide,
            self._apply,
            self.queue,
            looks,
            self.memory,
            _METRICS,
            now=self.now,
            glance=self._glance,
        )
        orphans = Orphans(kube, (), now=world.clock.time)

        async def compare() -> None:
            await resync(kube, (), looks.keys() | set(self.memory.states), self.queue.add)

        draw = world.rng.random
        self._tasks = [
            world.clock.create_task(work)
            for work in (
                self.queue.clock(),
                *(self.queue.worker(reconciler.reconcile) for _ in range(WORKERS)),
                repeat(_SETTINGS.resync, self._guarded(compare), "resync", first=False, draw=draw),
                repeat(_SETTINGS.orphans, self._guarded(orphans.sweep), "orphans", first=True, draw=draw),
            )
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        self.informer = Informer(world, self)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs on; what is on its way to the server may still arrive there."""
        self.alive = False
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or isinstance(task.exception(), Crash):
            return
        self.world.clock.fail(task.exception() or AssertionError("a worker has ended"))

    # ------------------------------------------------------------------ the three steps of a pass, watched

    def _guarded(self, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """What is no outcome but a fault of ours ends the run, where the reconciler would log it and go on."""

        async def guarded(*args: Any) -> Any:
            try:
                return await work(*args)
            except (KubeError, RefusedError):
                raise
            except Exception as error:
                self.world.clock.fail(error)
                raise

        return guarded

    async def _observe(self, key: SweepKey) -> Observed | None:
        found: Observed | None = await self._guarded(self._glances.observe)(key)
        return found

    async def _glance(self, key: SweepKey) -> Observed | None:
        found: Observed | None = await self._guarded(self._glances.glance)(key)
        return found

    def _decide(self, observed: Observed, now: float) -> Plan:
        try:
            return decide(observed, now)
        except Exception as error:
            self.world.clock.fail(error)
            raise

    async def _apply(self, observed: Observed, plan: Plan) -> None:
        self.world.planned(observed, plan)
        token = APPLYING.set(True)
        try:
            await self._guarded(self._applier.apply)(observed, plan)
        finally:
            APPLYING.reset(token)
