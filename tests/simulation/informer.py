"""The watches of one process: late, sometimes deaf, and after a break resumed, or re-listed without what vanished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainsweep.contract import labels
from trainsweep.runtime.keys import SweepKey, child_key, sweep_key
from trainsweep.runtime.kube import RAY_CLUSTER, RAY_JOB, SWEEP, SWEEP_CLASS, Kind, Object

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

WATCHED = (SWEEP, SWEEP_CLASS, RAY_JOB, RAY_CLUSTER)


class Informer:
    """Stands for kopf: turns changes into keys as the handlers of `runtime.operator` do."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self._deaf: dict[str, list[Object]] = {}
        """By kind whose watch is broken: what was missed."""
        for kind in WATCHED:
            self._later(lambda kind=kind: self._list(kind), 0.02, 0.5)

    def _later(self, what: object, least: float, most: float) -> None:
        world = self._world
        assert callable(what)
        world.at(world.now + world.rng.uniform(least, most), what)

    def changed(self, kind: Kind, body: Object) -> None:
        """The server has changed an object, or removed it."""
        if kind not in WATCHED:
            return
        if kind.plural in self._deaf:
            self._deaf[kind.plural].append(body)
        elif self._world.rng.random() >= self._world.lost_watch:
            self._later(lambda: self._handle(kind, body), 0.01, 0.3)

    def broken(self, kind: Kind, seconds: float, *, expired: bool) -> None:
        """The watch breaks. It resumes where it was, or, where its version has expired (410), lists anew."""
        if kind.plural in self._deaf:
            return
        self._deaf[kind.plural] = []

        def mended() -> None:
            missed = self._deaf.pop(kind.plural)
            if expired:
                self._list(kind)
                return
            for body in missed:
                self._handle(kind, body)

        self._world.at(self._world.now + seconds, mended)

    def _list(self, kind: Kind) -> None:
        for body in list(self._world.server.all(kind)):
            self._handle(kind, body)

    def _handle(self, kind: Kind, body: Object) -> None:
        process = self._process
        if not process.alive:
            return
        key: SweepKey | None
        if kind is SWEEP_CLASS:
            process.classes.stale()
            for key in list(process.memory.states):
                process.memory.changed(key)
                process.queue.add(key)
            return
        key = sweep_key(body) if kind is SWEEP else child_key(body, labels.SWEEP_NAME)
        if key is not None:
            process.memory.changed(key)
            process.queue.add(key)
