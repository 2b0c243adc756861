"""How quiet the operator is, counted in the audit log of the API server."""

from __future__ import annotations

import threading
import time
from collections import Counter

from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.process import Operator
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.world import World, shown
from tests.together import concurrent, long

OBJECT_WRITES, EVENTS, PROGRESS_SECONDS = 12, 8, 30


@concurrent
def test_a_one_attempt_sweep_costs_at_most_twelve_writes_and_eight_events(world: World) -> None:
    began = time.time()
    body = world.submit(sweep("quiet", "budget"), Script(epoch_seconds=1.0))
    done = world.ended(body)
    assert condition(done, "Succeeded")["status"] == "True"
    world.until(lambda: "finalizers" not in world.sweep(body)["metadata"], "finalizer gone")
    time.sleep(3)
    progress = int((time.time() - began) // PROGRESS_SECONDS)
    writes = world.audit("budget")
    events = [e for e in writes if e["objectRef"]["resource"] == "events"]
    objects = [e for e in writes if e["objectRef"]["resource"] != "events"]
    assert len(objects) <= OBJECT_WRITES + progress, "\n".join(shown(objects))
    assert 1 <= len(events) <= EVENTS, "\n".join(shown(events))
    refused = [e for e in writes if e["responseStatus"]["code"] >= 400]
    assert refused == [], "\n".join(shown(refused))
    kinds = Counter(f"{e['verb']} {e['objectRef']['resource']}" for e in objects)
    assert kinds["create rayjobs"] == kinds["create trainsweepholds"] == kinds["delete trainsweepholds"] == 1


@long
@concurrent
def test_at_rest_the_operator_looks_again_and_again_and_writes_nothing(world: World) -> None:
    namespace = world.namespace("rest")
    script = Script(hold=threading.Event())
    with world.operator("rest", namespace, TRAINSWEEP_RESYNC_SECONDS="5") as operator:
        operator.start()
        _rests(world, namespace, operator, script)
    script.hold.set()


def _rests(world: World, namespace: str, operator: Operator, script: Script) -> None:
    finished = world.submit(sweep("finished", namespace))
    refused = world.submit(sweep("refused", namespace, className="nowhere"))
    waiting = world.submit(sweep("waiting", namespace), script)
    world.ended(finished)
    world.reaches(refused, "Admitted", "False", "ClassNotFound")
    world.training(waiting)
    # Until the last measured value is written, at most half a minute after it was seen.
    quiet_since, count = time.monotonic(), -1
    while time.monotonic() - quiet_since < PROGRESS_SECONDS + 5:
        found = len(world.audit(namespace))
        if found != count:
            quiet_since, count = time.monotonic(), found
        time.sleep(1)
    passes, before = operator.metric("trainsweep_reconcile_total"), len(world.audit(namespace))
    time.sleep(60)
    after = world.audit(namespace)
    assert operator.metric("trainsweep_reconcile_total") - passes >= 10
    assert list(shown(after[before:])) == []
