"""What GitOps does to sweeps when the operator is away: removed, installed again, deleted and applied in a hurry."""

from __future__ import annotations

import threading
import time

from tests.integration.operator.doubles.api import ApiError
from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.world import NAMESPACE_KIND, World
from tests.together import concurrent
from tests.unit.argocd.tools import kstatus
from trainsweep.core.model import FINALIZER
from trainsweep.runtime.kube import HOLD, SWEEP


@concurrent
def test_D2_the_operator_is_removed_before_its_sweeps_and_comes_back(world: World) -> None:
    space = world.namespace("gitops-d2")
    script = Script(hold=threading.Event())
    with world.operator("gitops-d2", space) as operator:
        operator.start()
        finished = world.submit(sweep("finished", space))
        suspended = world.submit(sweep("suspended", space, suspend=True))
        running = world.submit(sweep("running", space), script)
        world.ended(finished)
        world.reaches(suspended, "Suspended")
        world.training(running)
        world.until(lambda: "finalizers" not in world.sweep(finished)["metadata"], "a finished one has no finalizer")
        operator.terminate()
        operator.wait(60)
        for body in (finished, suspended):
            world.delete(body)
            world.gone(body, timeout=30)
        world.delete(running)
        time.sleep(3)
        assert world.sweep(running)["metadata"]["finalizers"] == [FINALIZER]
        assert world.rayjobs(running), "its cluster waits for the operator's return"
        operator.start()
        world.gone(running)
        world.until(lambda: not world.pods(running), "last pod gone")
    (run,) = world.runs(running)
    assert [v.result for v in run.verdicts] == ["Persisted"], "settled and proven before it went"
    assert world.holds(running) == []


@concurrent
def test_D2_a_namespace_that_is_deleted_without_its_operator_goes_when_the_operator_is_back(world: World) -> None:
    space = world.namespace("gitops-d2-space")
    script = Script(hold=threading.Event())
    with world.operator("gitops-d2-space", space) as operator:
        operator.start()
        running = world.submit(sweep("running", space), script)
        world.training(running)
        operator.terminate()
        operator.wait(60)
        world.api.delete(NAMESPACE_KIND, space)
        world.until(lambda: world.sweep(running)["metadata"].get("deletionTimestamp"), "the sweep is being deleted")
        operator.start()
        world.gone(running)
        assert world.api.list(HOLD, space) == []
        world.until(lambda: world.api.get(NAMESPACE_KIND, space) is None, "the namespace is gone")


@concurrent
def test_D6_a_sweep_that_is_applied_again_while_it_goes_launches_nothing_and_afterwards_adopts(world: World) -> None:
    space = world.namespace("gitops-d6")
    script = Script(hold=threading.Event())
    with world.operator("gitops-d6", space) as operator:
        operator.start()
        body = world.submit(sweep("hasty", space), script, Script())
        world.training(body)
        run = world.sweep(body)["status"]["run"]
        operator.kill()
        world.delete(body)
        world.patch(body, {"spec": body["spec"], "metadata": {"labels": {"applied": "again"}}})
        assert kstatus(world.sweep(body)) == "Terminating"
        operator.start()
        world.until(lambda: world.runs(body)[0].stops, "the driver is asked to stop")
        left = world.api.get(SWEEP, "hasty", space)
        assert left is None or kstatus(left) == "Terminating"
        world.gone(body)
        assert len(world.runs(body)) == 1, "nothing was launched for a sweep that goes"
        again = world.submit(sweep("hasty", space), Script())
        done = world.ended(again)
    assert condition(done, "Succeeded")["status"] == "True"
    assert done["status"]["run"] == run, "the same run in the store"
    assert kstatus(done) == "Current"
    assert world.holds(again) == []


@concurrent
def test_a_replace_that_wipes_finalizers_and_annotations_restarts_nothing(world: World) -> None:
    """Argo CD's `Replace=true` is a PUT of what lies in Git."""
    script = Script(hold=threading.Event())
    body = world.submit(sweep("replaced"), script)
    run = world.training(body)
    live = world.sweep(body)
    fresh = {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {
            "name": "replaced",
            "namespace": body["metadata"]["namespace"],
            "resourceVersion": live["metadata"]["resourceVersion"],
        },
        "spec": sweep("replaced")["spec"],
    }
    space = body["metadata"]["namespace"]

    def put() -> bool:
        fresh["metadata"]["resourceVersion"] = world.sweep(body)["metadata"]["resourceVersion"]
        try:
            world.api.call("PUT", f"/apis/trainsweep.io/v1alpha1/namespaces/{space}/trainsweeps/replaced", fresh)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    world.until(put, "the replace")
    assert world.sweep(body)["status"] != {}, "status is a subresource: a replace leaves it"
    world.until(lambda: world.sweep(body)["metadata"].get("finalizers") == [FINALIZER], "the finalizer is back")
    script.hold.set()
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert [a["number"] for a in done["status"]["attempts"]] == [1]
    assert world.runs(body) == [run]
