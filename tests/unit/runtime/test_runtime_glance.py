"""A sweep that runs without trouble costs a read of the store, and none of the API server, until something happens."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.unit.runtime.parts import HOLD_NAME, JOB, KEY, UID, Parts
from tests.unit.runtime.runs import ATTEMPT, Run
from trainsweep.contract import labels
from trainsweep.core.decide import decide
from trainsweep.runtime.glance import FRESH_SECONDS, Glances
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import HOLD, POD, RAY_CLUSTER
from trainsweep.runtime.reconciler import Reconciler
from trainsweep.runtime.workqueue import WorkQueue

WHEN = "2026-11-01T00:00:00Z"


class Live:
    """A running sweep under a reconciler with a clock of its own."""

    def __init__(self, run: Run) -> None:
        self.run, self.now = run, time.time()
        self.parts = parts = Parts(opener=lambda *_: run.store)
        attempts = [{"number": 1, "rayJob": JOB, "startedAt": WHEN, "readyAt": WHEN, "firstReportAt": WHEN}]
        parts.sweep(attempt=1, status={"attempts": attempts}, finalizers=["trainsweep.io/settlement"])
        owners = [{"kind": "TrainSweepHold", "name": HOLD_NAME, "uid": "h", "apiVersion": "trainsweep.io/v1alpha1"}]
        parts.ray_job(
            metadata={"ownerReferences": owners},
            status={"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "rayClusterName": "c"},
        )
        parts.kube.put(HOLD, HOLD_NAME, metadata={"labels": labels.identity("digits", UID, 1)})
        parts.kube.put(RAY_CLUSTER, "c", status={"conditions": [{"type": "HeadPodReady", "status": "True"}]})
        self.pod = parts.kube.put(
            POD,
            "c-head",
            metadata={"labels": {**labels.identity("digits", UID, 1), "ray.io/node-type": "head"}},
            status={
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "ray-head", "ready": True, "state": {"running": {}}}],
            },
        )
        self.beat()
        self.queue: WorkQueue[SweepKey] = WorkQueue(draw=lambda: 0.0)
        glances = Glances(parts.observer.observe, parts.looks, parts.memory, lambda: self.now)
        self.work = Reconciler(
            glances.observe,
            decide,
            parts.applier.apply,
            self.queue,
            parts.looks,
            parts.memory,
            parts.metrics,
            now=lambda: self.now,
            glance=glances.glance,
        )

    def beat(self, **changes: Any) -> None:
        body = {"attemptId": ATTEMPT, "phase": "Running", "heartbeatAt": self.now, "trials": {"expected": 4}, **changes}
        self.run.put("progress.json", json.dumps(body).encode())

    async def passes(self, seconds: float = 5.0) -> list[tuple[str, str, str]]:
        """One pass that much later; the calls of the API server that it made."""
        self.now += seconds
        for held in self.parts.looks._sweeps.values():
            held.read_at = None
        before = len(self.parts.kube.calls)
        await self.work.reconcile(KEY)
        return self.parts.kube.calls[before:]


@pytest.fixture
async def live(file_run: Run) -> Live:
    made = Live(file_run)
    for _ in range(6):  # until what the first passes have to write is written
        await made.passes(FRESH_SECONDS + 1)
    await made.passes(FRESH_SECONDS + 1)
    return made


async def test_quiet_passes_ask_the_api_server_nothing(live: Live) -> None:
    assert KEY in live.parts.memory.seen
    assert [await live.passes() for _ in range(3)] == [[], [], []]
    assert live.queue.delayed == 1
    full = await live.passes()
    assert {c[0] for c in full} <= {"get", "page"}
    assert len(full) >= 5


async def test_a_wanted_action_is_decided_again_on_a_full_look(live: Live) -> None:
    live.beat(phase="WaitingForVerdict", receiptDigest="d" * 64)
    calls = await live.passes()
    assert ("get", "trainsweeps", "digits") in calls
    view = await live.parts.looks.view(KEY, live.parts.memory.seen[KEY].access, ATTEMPT, ended=False)
    assert view.settling or view.settlement is not None


@pytest.mark.parametrize("minutes", [0, 1])
async def test_an_event_or_time_ends_what_was_seen(live: Live, minutes: int) -> None:
    if minutes:
        assert await live.passes(60.0 * minutes)
    else:
        live.parts.memory.changed(KEY)
        assert await live.passes()


async def test_an_event_during_the_observation_keeps_it_from_being_used_again(live: Live) -> None:
    real = live.parts.kube.fault

    def event_meanwhile(verb: str, kind: Any, name: str) -> None:
        live.parts.memory.changed(KEY)

    live.parts.kube.fault = event_meanwhile
    await live.passes(FRESH_SECONDS + 1)
    live.parts.kube.fault = real
    assert KEY not in live.parts.memory.seen
    assert await live.passes()


async def test_a_sweep_with_a_pod_that_is_not_well_is_looked_at_in_full(live: Live) -> None:
    live.pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    await live.passes(FRESH_SECONDS + 1)
    assert KEY not in live.parts.memory.seen
    assert await live.passes()
