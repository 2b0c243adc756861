"""A person suspends a sweep and resumes it: nothing is lost, nothing is left, and nothing is run twice."""

from __future__ import annotations

import threading

from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.test_attempts import trained, used
from tests.integration.operator.world import World
from tests.together import concurrent
from trainsweep.core.model import FINALIZER


def suspended(world: World, body: dict) -> dict:
    """Waits until the sweep rests: the status is written first, then the finalizer is taken away."""

    def rests() -> bool:
        found = world.sweep(body)
        held = FINALIZER in (found["metadata"].get("finalizers") or ())
        return condition(found, "Suspended").get("status") == "True" and not held

    world.until(rests, "the sweep is suspended, without a finalizer")
    return world.sweep(body)


@concurrent
def test_a_running_sweep_is_settled_released_and_goes_on_without_a_retry(world: World) -> None:
    body = world.submit(sweep("suspended"), Script(hold=threading.Event()), Script())
    run = world.training(body)
    world.patch(body, {"spec": {"suspend": True}})
    found = suspended(world, body)
    assert run.stops == ["Suspended"]
    assert [v.result for v in run.verdicts] == ["Persisted"]
    assert condition(found, "Succeeded")["status"] == "Unknown"
    assert condition(found, "CheckpointsVerified")["reason"] == "Verified"
    assert condition(found, "Reconciling") == {}
    assert world.holds(body) == []
    assert world.pods(body) == []
    world.patch(body, {"spec": {"suspend": None}})
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert condition(done, "Suspended") == {}
    assert [a["endClass"] for a in done["status"]["attempts"]] == ["Suspended", "Success"]
    assert used(done) == {}
    first, second = world.runs(body)
    assert second.stops == []
    assert len(trained(world, body)) == len(set(trained(world, body))), "an epoch was trained twice"
    assert first.attempt == 1


@concurrent
def test_a_sweep_that_is_created_suspended_makes_nothing_until_it_is_resumed(world: World) -> None:
    body = world.submit(sweep("born-suspended", suspend=True), Script())
    found = suspended(world, body)
    assert condition(found, "Admitted")["status"] == "True"
    assert world.rayjobs(body) == []
    world.patch(body, {"spec": {"suspend": False}})
    assert condition(world.ended(body), "Succeeded")["reason"] == "Completed"


@concurrent
def test_a_suspended_sweep_is_deleted_at_once(world: World) -> None:
    body = world.submit(sweep("suspended-deleted"), Script(hold=threading.Event()))
    world.training(body)
    world.patch(body, {"spec": {"suspend": True}})
    suspended(world, body)
    world.delete(body, "Foreground")
    world.gone(body, 30)
    world.until(lambda: not world.rayjobs(body), "its RayJob is collected")
