"""A sweep is deleted while it runs: settlement first, then everything goes, whatever the garbage collector does."""

from __future__ import annotations

import threading

import pytest

from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.world import World, shown
from tests.together import concurrent
from trainsweep.contract.labels import FORCE_RELEASE
from trainsweep.core.model import FINALIZER
from trainsweep.runtime.kube import HOLD


def nothing_is_left(world: World, body: dict) -> None:
    """Waits for the sweep and looks for what it owned."""
    world.gone(body)
    world.until(lambda: not world.pods(body), "last pod gone")
    assert world.rayjobs(body) == []
    assert world.holds(body) == []


@pytest.mark.parametrize("policy", ["Foreground", "Background", "Orphan"])
@concurrent
def test_a_deleted_sweep_is_settled_before_its_rayjob_goes(world: World, policy: str) -> None:
    script = Script(hold=threading.Event())
    body = world.submit(sweep(f"deleted-{policy.lower()}"), script)
    run = world.training(body)
    (job,) = world.rayjobs(body)
    assert {o["kind"] for o in job["metadata"]["ownerReferences"]} == {"TrainSweep", "TrainSweepHold"}
    assert FINALIZER in world.sweep(body)["metadata"]["finalizers"]
    world.delete(body, policy)
    nothing_is_left(world, body)
    assert run.stops == ["Deleted"]
    assert [v.result for v in run.verdicts] == ["Persisted"]
    # The trial that had not ended was asked for its newest checkpoint, too: a re-created sweep can go on from there.
    names = {job["metadata"]["name"], run.sweep.file.sweep.name}
    deletes = [
        e
        for e in world.audit("sweeps", user="")
        if e["verb"] == "delete" and e["objectRef"]["resource"] == "rayjobs" and e["objectRef"]["name"] in names
    ]
    assert deletes, "nobody deleted the RayJob"
    verdict = [
        e
        for e in world.audit("sweeps")
        if e["objectRef"]["resource"] == "pods" and job["status"]["rayClusterName"] in e["objectRef"]["name"]
    ]
    assert verdict[-1]["stageTimestamp"] < deletes[0]["stageTimestamp"], list(shown([*verdict, *deletes]))


@concurrent
def test_a_hold_deleted_in_mid_run_is_made_again_and_owns_the_rayjob(world: World) -> None:
    script = Script(hold=threading.Event())
    body = world.submit(sweep("hold-lost"), script)
    world.training(body)
    (hold,) = world.holds(body)
    (job,) = world.rayjobs(body)
    world.api.delete(HOLD, hold["metadata"]["name"], "sweeps")

    def mended() -> bool:
        holds, (now,) = world.holds(body), world.rayjobs(body)
        owners = {o["uid"] for o in now["metadata"]["ownerReferences"] if o["kind"] == "TrainSweepHold"}
        return (
            bool(holds)
            and holds[0]["metadata"]["uid"] != hold["metadata"]["uid"]
            and (owners == {holds[0]["metadata"]["uid"]})
        )

    world.until(mended, "the hold is made again and the reference patched back")
    assert world.rayjobs(body)[0]["metadata"]["uid"] == job["metadata"]["uid"]
    script.hold.set()
    assert condition(world.ended(body), "Succeeded")["status"] == "True"


@concurrent
def test_the_force_release_annotation_ends_a_deletion_without_a_settlement(world: World) -> None:
    script = Script(hold=threading.Event(), ignore_stop=True)
    body = world.submit(sweep("forced"), script)
    run = world.training(body)
    world.delete(body)
    world.until(
        lambda: condition(world.sweep(body), "Succeeded").get("reason") in ("Stopping", "Deleting"), "stop asked"
    )
    assert len(world.rayjobs(body)) == 1
    world.patch(body, {"metadata": {"annotations": {FORCE_RELEASE: "the bucket is gone"}}})
    nothing_is_left(world, body)
    assert run.verdicts == []
    assert "Forced" in {e["reason"] for e in world.events(body)}


@concurrent
def test_a_driver_that_does_not_stop_delays_a_deletion_by_its_grace_and_no_longer(world: World) -> None:
    script = Script(hold=threading.Event(), ignore_stop=True)
    body = world.submit(sweep("stubborn", cleanup={"deletionGraceSeconds": 8}), script)
    run = world.training(body)
    world.delete(body)
    nothing_is_left(world, body)
    assert run.verdicts == []
    assert "Forced" in {e["reason"] for e in world.events(body)}


@concurrent
def test_a_sweep_without_a_rayjob_is_deleted_at_once(world: World) -> None:
    body = world.submit(sweep("never-launched", className="nowhere"))
    world.reaches(body, "Admitted", "False", "ClassNotFound")
    world.delete(body)
    world.gone(body, 15)


@concurrent
def test_a_finished_sweep_is_deleted_with_its_rayjob(world: World) -> None:
    body = world.submit(sweep("finished-first"))
    world.ended(body)
    world.until(lambda: not world.holds(body), "hold gone")
    world.delete(body)
    world.gone(body, 15)
    world.until(lambda: not world.rayjobs(body), "the garbage collector takes the RayJob")
