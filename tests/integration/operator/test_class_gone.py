"""A class that is deleted in mid-run: what was launched with it is proven and released, what comes next is refused."""

from __future__ import annotations

import threading

from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.sweeps import condition, sweep, sweep_class
from tests.integration.operator.world import World
from tests.together import concurrent
from trainsweep.runtime.kube import SWEEP_CLASS


@concurrent
def test_what_runs_is_proven_and_released_without_its_class(world: World) -> None:
    # What is owed is the class's word: it must not fall back to ours.
    required = {"defaults": {"checkpoints": {"require": "AllSucceeded"}}}
    world.sweep_class(sweep_class("leaves-early", world.cluster.s3_endpoint, **required))
    hold = threading.Event()
    body = world.submit(sweep("class-gone", className="leaves-early"), Script(hold=hold))
    run = world.training(body)
    granted = world.sweep(body)["status"]["resolved"]["granted"]
    assert granted["defaults"]["checkpoints"] == {"require": "AllSucceeded"}
    world.api.delete(SWEEP_CLASS, "leaves-early")
    hold.set()
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert condition(done, "CheckpointsVerified")["status"] == "True"
    assert done["status"]["checkpoints"]["required"] == 2
    assert [v.result for v in run.verdicts] == ["Persisted"]
    assert condition(done, "Released")["reason"] == "Released"


@concurrent
def test_the_retry_is_refused_until_the_class_is_back(world: World) -> None:
    wanted = sweep_class("comes-back", world.cluster.s3_endpoint)
    world.sweep_class(wanted)
    hold = threading.Event()
    body = world.submit(
        sweep("class-back", className="comes-back"), Script(hold=hold, crash_before="receipt"), Script()
    )
    world.training(body)
    world.api.delete(SWEEP_CLASS, "comes-back")
    hold.set()
    seen = world.reaches(body, "Admitted", "False", "ClassNotFound")
    assert condition(seen, "CheckpointsVerified")["reason"] == "Verified"
    assert condition(seen, "Released")["status"] == "True"
    assert "create it again under that name" in condition(seen, "Admitted")["message"]
    assert seen["status"]["attempt"] == 1
    assert len(world.runs(body)) == 1
    world.sweep_class(wanted)
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert done["status"]["attempt"] == 2
