"""The operator dies, and it changes the outcome of nothing."""

from __future__ import annotations

import threading

import pytest

from tests.integration.operator.doubles.api import Object
from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.world import PATIENCE, World
from tests.together import concurrent
from trainsweep.runtime.crash import POINTS


def went_well_once(world: World, body: Object) -> None:
    """One attempt, one RayJob ever, one verdict, nothing left."""
    done = world.ended(body)
    namespace = body["metadata"]["namespace"]
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert condition(done, "CheckpointsVerified")["reason"] == "Verified"
    assert [a["number"] for a in done["status"]["attempts"]] == [1]
    made = [e for e in world.audit(namespace) if e["verb"] == "create" and e["objectRef"]["resource"] == "rayjobs"]
    assert [e["responseStatus"]["code"] for e in made].count(201) == 1
    (run,) = world.runs(body)
    assert {v.result for v in run.verdicts} == {"Persisted"}
    world.until(lambda: "finalizers" not in world.sweep(body)["metadata"], "finalizer gone")
    assert world.holds(body) == []
    assert world.pods(body) == []


@pytest.mark.parametrize("point", POINTS)
@concurrent
def test_killed_at_a_named_point_the_next_process_reaches_the_same_end(world: World, point: str) -> None:
    namespace = world.namespace(f"crash-{point}")
    with world.operator(f"crash-{point}", namespace) as operator:
        body = world.submit(sweep("survivor", namespace))
        operator.start(TRAINSWEEP_CRASH_AT=point)
        assert operator.wait(PATIENCE) == 137, operator.tail()
        assert condition(world.sweep(body), "Released").get("status") != "True"
        operator.start()
        went_well_once(world, body)


@concurrent
def test_killed_at_three_points_in_a_row_it_still_launches_one_rayjob(world: World) -> None:
    namespace = world.namespace("crash-thrice")
    with world.operator("crash-thrice", namespace) as operator:
        body = world.submit(sweep("survivor", namespace))
        for point in ("after-finalizer", "after-status", "after-post"):
            operator.start(TRAINSWEEP_CRASH_AT=point)
            assert operator.wait(PATIENCE) == 137, operator.tail()
        operator.start()
        went_well_once(world, body)


@concurrent
def test_dead_while_the_training_ends_it_looks_within_the_hold(world: World) -> None:
    """KubeRay's lease keeps the cluster; without an answer in time the driver ends, and the look is made afterwards."""
    namespace = world.namespace("crash-late")
    script = Script(hold=threading.Event())
    spec = {
        "checkpoints": {"verify": {"timeoutSeconds": 10}},
        "cleanup": {"holdSeconds": 300, "maxHoldSeconds": 300},
    }
    with world.operator("crash-late", namespace) as operator:
        body = world.submit(sweep("survivor", namespace, **spec), script)
        operator.start()
        run = world.training(body)
        operator.kill()
        script.hold.set()
        world.until(lambda: run.state == "SUCCEEDED", "the driver ends without a verdict")
        assert run.verdicts == []
        assert world.pods(body) != []
        operator.start()
        done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert condition(done, "CheckpointsVerified")["reason"] == "Verified"
    assert done["status"]["checkpoints"]["source"] == "Receipt"
