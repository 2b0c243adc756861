"""The kube port of one operator process over the server double: latency, and faults at every call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.faults import CONFLICT, CRASH_AFTER, CRASH_BEFORE, ERROR, LATE, LOST_REPLY, name_of
from trainsweep.runtime.kube import RAY_JOB, SWEEP, Conflict, Denied, Invalid, Kind, KubeError, Object, Unavailable

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

T = TypeVar("T")
LATE_CREATE_SECONDS = 3.0
"""A create that the client gave up is carried out within this time: an API server ends a request that it holds."""


class Crash(BaseException):
    """SIGKILL."""


class FaultyKube:
    """All calls of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._server, self._process = world, world.server, process

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return await self._call(name_of("get", kind), lambda: self._server.get(kind, name), write=False)

    async def page(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, token: str = ""
    ) -> tuple[list[Object], str]:
        def do() -> tuple[list[Object], str]:
            # By field only Events of other objects are asked for: nobody writes any here.
            return ([], "") if fields else self._server.page(kind, labels, limit, token)

        return await self._call(name_of("list", kind), do, write=False)

    async def log(self, pod: str, container: str, namespace: str, lines: int) -> str:
        return await self._call("get pods/log", lambda: "", write=False)

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        def do() -> Object:
            if kind is RAY_JOB and self._world.now < self._world.refuses_until:
                raise self._world.refusal
            self._world.checks.on_create(kind, body)
            return self._server.create(kind, body)

        return await self._call(name_of("create", kind), do, late=LATE_CREATE_SECONDS)

    async def merge_patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        def do() -> Object:
            before = self._server.get(kind, name)
            self._server.check(before, body.get("metadata") or {})
            self._world.checks.on_patch(kind, before, body)
            made = self._server.patch(kind, name, body)
            self._world.checks.on_written(kind, "patch", before, made)
            return made

        return await self._call(name_of("patch", kind, body), do, kind=kind)

    async def put_status(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        def do() -> Object:
            before = self._server.get(kind, name)
            made = self._server.put_status(kind, name, body)
            self._world.checks.on_written(kind, "put_status", before, made)
            return made

        return await self._call(name_of("put", kind), do, kind=kind)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        def do() -> None:
            before = self._server.get(kind, name)
            self._server.check(before, {"uid": uid})
            self._world.checks.on_delete(kind, before)
            self._server.delete(kind, name, uid=uid)
            self._world.checks.on_written(kind, "delete", before, None)

        await self._call(name_of("delete", kind), do)

    # ------------------------------------------------------------------ the way there and back

    async def _call(
        self, io: str, do: Callable[[], T], *, write: bool = True, kind: Kind | None = None, late: float = 60.0
    ) -> T:
        world, rng = self._world, self._world.rng
        self._living()
        fault = world.faults.draw(io, rng, write=write)
        slow = rng.random() < world.faults.odds.slow and not world.faults.stopped
        pause = rng.uniform(0.2, 4.0) if slow else rng.uniform(0.001, 0.02)
        await asyncio.sleep(pause / 2)
        self._living()
        if fault == CRASH_BEFORE:
            self._die(f"before {io}")
        if fault == ERROR or world.now < world.api_away_until:
            raise self._no(rng)
        if world.now < world.forbidden_until:
            raise Denied("the operator may not do this")
        if fault == CONFLICT:
            self._someone_else(kind)
        elif fault == LATE:
            world.at(world.now + rng.uniform(0.1, late), lambda: self._late(io, do))
            raise Unavailable("timed out")
        done = do()
        if fault == CRASH_AFTER:
            self._die(f"after {io}")
        if fault == LOST_REPLY:
            raise Unavailable("the reply was lost")
        await asyncio.sleep(pause / 2)
        self._living()
        return done

    def _living(self) -> None:
        if not self._process.alive:
            raise Crash("dead already")

    def _die(self, where: str) -> None:
        self._world.note(f"operator {self._process.number} dies {where}")
        self._world.killed(self._process)
        raise Crash(where)

    def _no(self, rng: Any) -> KubeError:
        return rng.choice((Unavailable("503"), Unavailable("429", retry_after=3.0), Unavailable("connection refused")))

    def _someone_else(self, kind: Kind | None) -> None:
        """Somebody writes the sweep in between; elsewhere the server gives up a write that met too many others."""
        if kind is SWEEP:
            self._world.someone_annotates()
        else:
            raise Conflict("the object has been modified; please apply your changes to the latest version")

    def _late(self, io: str, do: Callable[[], Any]) -> None:
        self._world.note(f"late: {io}")
        self._world.checks.late = True
        try:
            do()
        except KubeError as error:
            self._world.note(f"late: {io}: {type(error).__name__}")
        finally:
            self._world.checks.late = False


REFUSALS: tuple[KubeError, ...] = (
    Denied("admission webhook denied the request"),
    Invalid("exceeded quota"),
    Unavailable("failed calling webhook"),
)
