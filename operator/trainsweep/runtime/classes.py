"""Which TrainSweepClass serves a sweep. Classes are few: they are listed whole, again after an event or a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trainsweep.core.grant import class_of_grant
from trainsweep.core.model import ClassView, SweepView
from trainsweep.runtime.kube import SWEEP_CLASS, Denied, Kube, Object
from trainsweep.runtime.views import class_view, is_default_class, mapping, text

FRESH_SECONDS = 60.0


class Classes:
    """The classes of the cluster."""

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube, self._clock = kube, clock
        self._known: dict[str, Object] = {}
        self._listed_at: float | None = None
        self._lock = asyncio.Lock()

    def stale(self) -> None:
        """A class has changed: the next sweep that asks has them listed anew."""
        self._listed_at = None

    async def for_sweep(self, sweep: SweepView) -> tuple[ClassView | None, str]:
        """The class of a sweep, or why there is none: (None, "") where none is asked for and none is the default.

        Once launched, a sweep keeps the class that it was launched with, by name. Of one that is gone since, what the run
        needs to be read and released is given back beside the error; of one that cannot be read, nothing: it may say no.

        Raises:
            KubeError: where the classes could not be read.
        """
        try:
            known = await self._all()
        except Denied as error:
            return None, f"the operator may not list TrainSweepClasses ({error.message}): install its ClusterRole"
        launched = bool(sweep.status.run)
        name = _said(launched, sweep.status.resolved.class_name, sweep.spec)
        if name:
            found = known.get(name)
            if found is not None:
                return class_view(found)
            if not launched:
                return None, f"TrainSweepClass {name} does not exist: create it, or name another in spec.className"
            return (
                class_of_grant(sweep.status.resolved, text(sweep.spec.get("className"), 63)),
                f"TrainSweepClass {name}, with which this sweep was launched, does not exist any more: create it again "
                "under that name, or delete this sweep and create it with another spec.className",
            )
        marked = _marked(known)
        if len(marked) > 1:
            return None, f"several TrainSweepClasses are marked as default ({', '.join(marked)}): set spec.className"
        return class_view(known[marked[0]]) if marked else (None, "")

    async def name_of(self, body: Object) -> str:
        """Name of the class that a listed sweep has or would get, "" where it would get none.

        Raises:
            KubeError: where the classes could not be read.
        """
        status = mapping(body.get("status"))
        resolved = text(mapping(status.get("resolved")).get("className"), 63)
        name = _said(bool(status.get("run")), resolved, body.get("spec"))
        marked = [] if name else _marked(await self._all())
        return name or (marked[0] if len(marked) == 1 else "")

    async def _all(self) -> dict[str, Object]:
        async with self._lock:
            now = self._clock()
            if self._listed_at is None or now - self._listed_at > FRESH_SECONDS:
                known: dict[str, Object] = {}
                token = ""
                # Taken before the call: an event that comes while we list makes the list stale again.
                self._listed_at = now
                try:
                    while True:
                        found, token = await self._kube.page(SWEEP_CLASS, limit=500, token=token)
                        known.update({text(mapping(o.get("metadata")).get("name")): o for o in found})
                        if not token:
                            break
                except BaseException:
                    self._listed_at = None
                    raise
                self._known = known
            return self._known


def _said(launched: bool, resolved: str, spec: object) -> str:
    return (resolved if launched else "") or text(mapping(spec).get("className"), 63)


def _marked(known: dict[str, Object]) -> list[str]:
    return sorted(name for name, body in known.items() if is_default_class(body))
