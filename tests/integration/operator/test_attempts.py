"""How attempts end, what that is booked to, and that finished trials never run again."""

from __future__ import annotations

import threading

from tests.integration.operator.doubles.api import Object
from tests.integration.operator.doubles.driver import Script
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.world import World
from tests.together import concurrent, long
from trainsweep.runtime.kube import POD, RAY_CLUSTER, RAY_JOB


def used(body: Object) -> dict[str, int]:
    """Retries used, by class; those of zero left out."""
    return {k: v["used"] for k, v in body["status"]["retries"].items() if v["used"]}


def ends(body: Object) -> list[tuple[str, str]]:
    """(class, cause) of each attempt."""
    return [(a["endClass"], a["reason"]) for a in body["status"]["attempts"]]


def trained(world: World, body: Object) -> list[str]:
    """All reports over all attempts."""
    return [t for run in world.runs(body) for t in run.trained]


@concurrent
def test_a_lost_head_costs_an_infrastructure_retry_and_no_report_is_made_twice(world: World) -> None:
    body = world.submit(sweep("head-lost"), Script(hold=threading.Event()), Script())
    world.training(body)
    (job,) = world.rayjobs(body)
    head = world.kuberay.head_of("sweeps", job["status"]["rayClusterName"])
    assert head is not None
    world.api.delete(POD, head["metadata"]["name"], "sweeps")
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert ends(done) == [("Infrastructure", "HeadLost"), ("Success", "JobSucceeded")]
    assert used(done) == {"infrastructure": 1}
    assert sorted(trained(world, body)) == ["t0000/1", "t0000/2", "t0001/1", "t0001/2"]
    first, second = world.runs(body)
    assert first.sweep.file.store.uri == second.sweep.file.store.uri


@concurrent
def test_a_driver_that_dies_without_a_receipt_is_settled_by_an_inventory(world: World) -> None:
    body = world.submit(sweep("no-receipt"), Script(crash_before="receipt"), Script())
    seen = world.reaches(body, "Succeeded", "Unknown", "Retrying")
    assert seen["status"]["checkpoints"]["source"] == "Inventory"
    assert condition(seen, "CheckpointsVerified")["reason"] == "Verified"
    done = world.ended(body)
    assert ends(done) == [("Application", "JobFailed"), ("Success", "JobSucceeded")]
    assert used(done) == {"application": 1}
    assert done["status"]["checkpoints"]["source"] == "Receipt"
    # All was trained before it died: nothing is done again.
    assert len(trained(world, body)) == 4


@concurrent
def test_retries_are_finite_and_the_last_attempt_is_settled_too(world: World) -> None:
    spec = {"failurePolicy": {"attempts": {"application": 1}}}
    body = world.submit(sweep("always-fails", **spec), Script(crash_before="receipt"))
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "RetriesExhausted"
    assert "failurePolicy.attempts" in condition(done, "Succeeded")["message"]
    assert used(done) == {"application": 1}
    assert len(world.runs(body)) == 2
    assert condition(done, "CheckpointsVerified")["reason"] == "Verified"


@concurrent
def test_a_preemption_is_an_eviction_and_the_next_attempt_goes_on(world: World) -> None:
    body = world.submit(sweep("preempted"), Script(hold=threading.Event()), Script())
    world.training(body)
    (job,) = world.rayjobs(body)
    world.api.patch(RAY_JOB, job["metadata"]["name"], {"spec": {"suspend": True}}, "sweeps")
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert ends(done)[0] == ("Eviction", "Suspended")
    assert used(done) == {"eviction": 1}
    assert len(trained(world, body)) == 4


@concurrent
def test_a_rayjob_deleted_by_a_person_is_an_eviction(world: World) -> None:
    body = world.submit(sweep("job-deleted"), Script(hold=threading.Event()), Script())
    world.training(body)
    (job,) = world.rayjobs(body)
    world.api.delete(RAY_JOB, job["metadata"]["name"], "sweeps")
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert ends(done)[0] == ("Eviction", "RayJobDeleted")
    assert used(done) == {"eviction": 1}
    uids = [a["rayJobUID"] for a in done["status"]["attempts"]]
    assert len(set(uids)) == 2


@concurrent
def test_a_rayjob_deleted_with_cascade_orphan_leaves_no_cluster_behind(world: World) -> None:
    """The garbage collector takes the owner reference away and leaves the cluster: only we can end it."""
    body = world.submit(sweep("job-orphaned"), Script(hold=threading.Event()), Script())
    run = world.training(body)
    (job,) = world.rayjobs(body)
    cluster = job["status"]["rayClusterName"]
    world.api.delete(RAY_JOB, job["metadata"]["name"], "sweeps", policy="Orphan")
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    assert ends(done)[0] == ("Eviction", "RayJobDeleted")
    assert done["status"]["attempts"][0]["stopReason"] == "RayJobDeleted"
    assert used(done) == {"eviction": 1}
    # It was stopped and proven before its cluster went: no report is made twice.
    assert [v.result for v in run.verdicts] == ["Persisted"]
    assert len(trained(world, body)) == 4
    assert world.api.get(RAY_CLUSTER, cluster, "sweeps") is None
    deletions = [e for e in world.audit("sweeps") if e["verb"] == "delete" and e["objectRef"]["name"] == cluster]
    assert len(deletions) == 1


@concurrent
def test_a_rayjob_that_kuberay_refuses_ends_the_sweep_and_is_removed(world: World) -> None:
    """The one-way door: ValidationFailed has no way out, and its time-to-live never ends."""
    body = world.submit(sweep("door"), Script(hold=threading.Event()))
    world.training(body)
    (job,) = world.rayjobs(body)
    patch = {"spec": {"suspend": True, "shutdownAfterJobFinishes": False}}
    world.api.patch(RAY_JOB, job["metadata"]["name"], patch, "sweeps")
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "KubeRayRefused"
    assert world.rayjobs(body) == []
    assert world.api.get(RAY_CLUSTER, job["status"]["rayClusterName"], "sweeps") is None


@concurrent
def test_a_run_deadline_set_in_mid_run_stops_the_driver_and_its_checkpoints_are_still_proven(world: World) -> None:
    body = world.submit(sweep("deadline"), Script(hold=threading.Event()))
    world.training(body)
    world.patch(body, {"spec": {"deadlines": {"runSeconds": 10}}})
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "DeadlineExceeded"
    assert condition(done, "CheckpointsVerified")["reason"] == "Verified"
    (run,) = world.runs(body)
    assert run.stops == ["RunDeadlineExceeded"]
    assert [v.result for v in run.verdicts] == ["Persisted"]


@long
@concurrent
def test_a_cluster_that_never_starts_ends_by_the_startup_deadline_with_the_pods_own_words(world: World) -> None:
    world.kuberay.unschedulable.add("no-nodes")
    spec = {"deadlines": {"startupSeconds": 45}, "failurePolicy": {"attempts": {"startup": 0}}}
    body = world.submit(sweep("no-nodes", **spec))
    # A measured value: it is written with the next status, at most 30 s after the last one.
    found = world.until(lambda: (world.sweep(body).get("status") or {}).get("pending"), "pending says why")
    assert (found["layer"], found["reason"]) == ("Placement", "InsufficientResources")
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "StartupDeadlineExceeded"
    assert "0 of 3 nodes fit: 3 without enough nvidia.com/gpu" in condition(done, "Succeeded")["message"]
    assert world.runs(body) == []
