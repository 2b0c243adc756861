"""Parts of the runtime put together around the fake API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.unit.render.render_builders import RUN, UID, raw
from tests.unit.runtime.fake_kube import FakeKube
from trainsweep.api.resolve import resolve
from trainsweep.contract import labels
from trainsweep.core.model import FINALIZER, Action, Observed, Plan
from trainsweep.render.kuberay import KubeRay
from trainsweep.render.rayjob import RenderInput, rayjob_name, render
from trainsweep.runtime.apply import Applier
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import RAY_JOB, SWEEP, SWEEP_CLASS, Object
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.observe import Observer
from trainsweep.runtime.recorder import Recorder

KEY = SweepKey("team-a", "digits")
JOB = rayjob_name("digits", UID, 1)
HOLD_NAME = f"{JOB}-hold"
RUN_URI = f"s3://bucket/team/team-a/digits/{RUN}"


class Parts:
    def __init__(self, **looks: Any) -> None:
        self.kube = FakeKube()
        self.metrics = Metrics()
        self.memory = Memory()
        self.notified: list[SweepKey] = []
        self.looks = Looks(self.notified.append, self.metrics, **looks)
        self.classes = Classes(self.kube)
        self.recorder = Recorder(self.kube)
        self.applier = Applier(self.kube, self.looks, self.recorder, self.memory, self.metrics)
        self.observer = Observer(self.kube, self.classes, self.looks, self.memory, KubeRay())
        self.kube.put(
            SWEEP_CLASS,
            "standard",
            metadata={"annotations": {"trainsweep.io/is-default-class": "true"}},
            spec={"storage": {"allowedPrefixes": ["s3://bucket/team"]}},
        )

    def sweep(self, *, attempt: int = 0, status: dict[str, Any] | None = None, **metadata: Any) -> Object:
        made: dict[str, Any] = {"observedGeneration": -1}
        if attempt:
            made = {
                "observedGeneration": 1,
                "run": RUN,
                "runURI": RUN_URI,
                "attempt": attempt,
                "attempts": [{"number": n, "rayJob": rayjob_name("digits", UID, n)} for n in range(1, attempt + 1)],
                "resolved": {"className": "standard"},
                "trials": {"expected": 4},
            }
        made.update(status or {})
        return self.kube.put(SWEEP, "digits", metadata={"uid": UID, **metadata}, spec=raw(), status=made)

    def ray_job(self, number: int = 1, **body: Any) -> Object:
        name = rayjob_name("digits", UID, number)
        meta = {"labels": labels.identity("digits", UID, number), **body.pop("metadata", {})}
        return self.kube.put(RAY_JOB, name, metadata=meta, **body)

    async def observed(self) -> Observed:
        found = await self.observer.observe(KEY)
        assert found is not None
        return found

    async def apply(self, *actions: Action, observed: Observed | None = None) -> None:
        await self.applier.apply(observed or await self.observed(), Plan(actions))


def rendered(number: int = 1) -> dict[str, Any]:
    spec = resolve(raw(), None)
    return render(RenderInput(spec, None, "team-a", "digits", UID, RUN, number))


def always(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def finalizers(body: Object | None) -> list[str]:
    assert body is not None
    return list(body["metadata"].get("finalizers") or [])


__all__ = ["FINALIZER", "HOLD_NAME", "JOB", "KEY", "RUN_URI", "UID", "Parts", "always", "finalizers", "rendered"]
