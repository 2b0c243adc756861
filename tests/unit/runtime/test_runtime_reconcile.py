from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.parts import FINALIZER, JOB, KEY, RUN_URI, UID, Parts, finalizers
from trainsweep.api.conditions import Condition, Reason
from trainsweep.contract import labels
from trainsweep.core.decide import decide
from trainsweep.core.draft import find_condition
from trainsweep.core.model import Observed, Plan, RayJobView, Unreadable
from trainsweep.render.rayjob import rayjob_name
from trainsweep.runtime.access import Access, access_of
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import (
    EVENT,
    HOLD,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    SWEEP,
    SWEEP_CLASS,
    Conflict,
    Denied,
    Unavailable,
)
from trainsweep.runtime.leaving import live_sweeps, refusal
from trainsweep.runtime.reconciler import Reconciler
from trainsweep.runtime.resync import Orphans, at_rest, resync
from trainsweep.runtime.startup import RIGHTS, detect_kuberay, missing_rights, problems
from trainsweep.runtime.workqueue import WorkQueue

WHEN = "2026-11-01T00:00:00Z"
Decide = Callable[[Observed, float], Plan]


def reconciler(parts: Parts, how: Decide = decide) -> tuple[Reconciler, WorkQueue[SweepKey]]:
    queue: WorkQueue[SweepKey] = WorkQueue(draw=lambda: 0.0)
    made = Reconciler(parts.observer.observe, how, parts.applier.apply, queue, parts.looks, parts.memory, parts.metrics)
    return made, queue


def outcomes(parts: Parts) -> set[str]:
    found = parts.metrics.registry.collect()
    samples = [s for m in found if m.name == "trainsweep_reconcile" for s in m.samples if s.name.endswith("_total")]
    return {s.labels["outcome"] for s in samples if s.value}


async def test_a_new_sweep_gets_its_first_ray_job_and_a_second_pass_writes_nothing() -> None:
    parts = Parts()
    parts.sweep()
    work, queue = reconciler(parts)
    await work.reconcile(KEY)
    assert finalizers(parts.kube.find(SWEEP, "digits")) == [FINALIZER]
    assert parts.kube.find(RAY_JOB, JOB) is not None
    assert queue.delayed == 1
    await work.reconcile(KEY)  # books the RayJob's uid
    writes = len(parts.kube.writes())
    for _ in range(3):
        await work.reconcile(KEY)
    assert len(parts.kube.writes()) == writes
    assert parts.memory.states[KEY] == Reason.STARTING


async def test_a_sweep_that_is_gone_is_forgotten() -> None:
    parts = Parts()
    work, queue = reconciler(parts)
    parts.memory.states[KEY] = "Running"
    queue.add_after(KEY, 100)
    await work.reconcile(KEY)
    assert (outcomes(parts), parts.memory.states, queue.delayed) == ({"gone"}, {}, 0)


@pytest.mark.parametrize("error", [Unavailable("503"), Denied("403")])
async def test_an_unreadable_sweep_backs_off_and_nothing_is_written(error: Exception) -> None:
    parts = Parts()
    parts.sweep()
    parts.kube.fault = lambda verb, kind, name: error if (verb, kind) == ("get", SWEEP) else None
    work, queue = reconciler(parts)
    await work.reconcile(KEY)
    assert (parts.kube.writes(), queue.delayed) == ([], 1)


async def test_children_that_cannot_be_read_are_unreadable_never_absent() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    parts.kube.fault = lambda verb, kind, name: (
        Unavailable("503") if kind in (RAY_JOB, HOLD, POD, RAY_CLUSTER) else None
    )
    seen = await parts.observed()
    assert all(isinstance(x, Unreadable) for x in (seen.ray_job, seen.hold, seen.pods, seen.cluster))
    work, _ = reconciler(parts)
    await work.reconcile(KEY)
    assert [w for w in parts.kube.writes() if w[1] != "trainsweeps"] == []


async def test_children_are_found_under_derived_names_and_by_labels() -> None:
    parts = Parts()
    parts.sweep(attempt=2, status={"attempts": [{"number": 2, "rayJob": "a-lie-in-the-status"}]})
    job = parts.ray_job(2, status={"rayClusterName": "cluster-x"})
    parts.kube.put(RAY_CLUSTER, "cluster-x", status={"state": "ready"})
    parts.kube.put(POD, "mine", metadata={"labels": labels.identity("digits", UID, 2)}, status={"phase": "Running"})
    parts.kube.put(POD, "older", metadata={"labels": labels.identity("digits", UID, 1)}, status={"phase": "Running"})
    seen = await parts.observed()
    assert isinstance(seen.ray_job, RayJobView)
    assert seen.ray_job.uid == job["metadata"]["uid"]
    assert getattr(seen.cluster, "name", "") == "cluster-x"
    assert isinstance(seen.pods, tuple)
    assert [p.name for p in seen.pods] == ["mine"]


async def test_a_cluster_is_found_by_labels_when_its_ray_job_is_gone() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    parts.kube.put(RAY_CLUSTER, "left", metadata={"labels": labels.identity("digits", UID, 1)})
    seen = await parts.observed()
    assert (seen.ray_job, getattr(seen.cluster, "name", "")) == (None, "left")


async def test_a_ray_job_that_comes_while_its_pass_looks_is_not_called_deleted() -> None:
    """A late POST, or a second operator's: its cluster is listed by a pass that has looked for the RayJob before."""
    parts = Parts()
    parts.sweep(attempt=1)

    def comes(verb: str, kind: Any, name: str) -> None:
        if kind is RAY_CLUSTER and parts.kube.find(RAY_JOB, JOB) is None:
            parts.ray_job()
            parts.kube.put(RAY_CLUSTER, "young", metadata={"labels": labels.identity("digits", UID, 1)})

    parts.kube.fault = comes
    seen = await parts.observed()
    assert isinstance(seen.ray_job, RayJobView)
    assert getattr(seen.cluster, "name", "") == "young"


async def test_clusters_that_no_ray_job_owns_are_orphans_whatever_their_number() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    marks = {"labels": labels.identity("digits", UID, 1)}
    owner = [{"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "x", "uid": "u"}]
    parts.kube.put(RAY_CLUSTER, "a-owned", metadata={**marks, "ownerReferences": owner})
    parts.kube.put(RAY_CLUSTER, "b-going", metadata={**marks, "deletionTimestamp": "2026-11-29T00:00:00Z"})
    left = parts.kube.put(RAY_CLUSTER, "c-left", metadata=marks)
    parts.kube.put(RAY_CLUSTER, "d-older", metadata={"labels": labels.identity("digits", UID, 2)})
    seen = await parts.observed()
    assert [(c.name, c.uid) for c in seen.orphans] == [("c-left", left["metadata"]["uid"])]
    # While its RayJob is there, only the cluster that it names is looked at; at the end all.
    parts.ray_job(1, status={"rayClusterName": "a-owned"})
    assert (await parts.observed()).orphans == ()
    parts.sweep(attempt=1)["status"]["attempts"][0]["endedAt"] = "2026-11-29T00:00:00Z"
    seen = await parts.observed()
    assert [c.name for c in seen.orphans] == ["c-left"]
    assert getattr(seen.cluster, "name", "") == "a-owned"


async def test_the_cluster_of_a_ray_job_of_somebody_else_is_none_of_ours() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    parts.ray_job(1, metadata={"labels": {}}, status={"rayClusterName": "theirs"})
    parts.kube.put(RAY_CLUSTER, "theirs", status={"state": "ready"})
    assert (await parts.observed()).cluster is None


async def test_events_of_a_stuck_pod_become_its_reason() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    made = parts.kube.put(
        POD,
        "head",
        metadata={"labels": {**labels.identity("digits", UID, 1), "ray.io/node-type": "head"}},
        status={"phase": "Pending", "conditions": [scheduled]},
    )
    parts.kube.put(
        EVENT,
        "e",
        involvedObject={"uid": made["metadata"]["uid"]},
        reason="FailedMount",
        message='configmap "code" not found',
    )
    seen = await parts.observed()
    assert isinstance(seen.pods, tuple)
    assert (seen.pods[0].problem_layer, seen.pods[0].problem_message) == ("Config", 'configmap "code" not found')


async def test_conflicts_look_again_at_once_and_back_off_only_when_they_go_on() -> None:
    parts = Parts()
    parts.sweep()
    parts.kube.fault = lambda verb, kind, name: Conflict("changed") if verb == "patch" else None
    work, queue = reconciler(parts)
    loop = asyncio.get_running_loop()
    pauses = []
    for _ in range(7):
        await work.reconcile(KEY)
        pauses.append(queue._due.pop(KEY) - loop.time())
    assert max(pauses[:5]) < 0.2
    assert min(pauses[5:]) > 0.9
    parts.kube.fault = None
    await work.reconcile(KEY)
    assert parts.kube.find(RAY_JOB, JOB) is not None


async def test_an_internal_error_is_told_in_the_status_and_never_kills_the_worker() -> None:
    parts = Parts()
    parts.sweep()

    def broken(observed: Observed, now: float) -> Plan:
        raise ZeroDivisionError("oops")

    work, queue = reconciler(parts, broken)
    await work.reconcile(KEY)
    found = find_condition((await parts.observed()).sweep.status, Condition.SUCCEEDED)
    assert found is not None
    assert (found.reason, found.status) == (Reason.INTERNAL_ERROR, "Unknown")
    assert "oops" in found.message
    assert queue.delayed == 1
    writes = len(parts.kube.writes())
    await work.reconcile(KEY)
    assert len(parts.kube.writes()) == writes
    assert outcomes(parts) == {"internal"}


async def test_an_internal_error_leaves_a_terminal_status_alone() -> None:
    parts = Parts()
    finished = {
        "type": "Finished",
        "status": "True",
        "reason": "Completed",
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    }
    before = parts.sweep(attempt=1, status={"conditions": [finished]})["status"]

    def broken(observed: Observed, now: float) -> Plan:
        raise ZeroDivisionError("oops")

    work, _ = reconciler(parts, broken)
    await work.reconcile(KEY)
    found = parts.kube.find(SWEEP, "digits")
    assert found is not None
    assert found["status"] == before


@pytest.mark.parametrize("spec", ["text", None, {}, {"trials": 7}, {"objective": {"metric": 1}}])
async def test_a_sweep_that_cannot_be_parsed_is_told_so_and_launches_nothing(spec: Any) -> None:
    parts = Parts()
    parts.sweep()["spec"] = spec
    work, _ = reconciler(parts)
    await work.reconcile(KEY)
    assert parts.kube.find(RAY_JOB, JOB) is None
    found = find_condition((await parts.observed()).sweep.status, Condition.ADMITTED)
    assert found is not None
    assert found.status == "False"


async def test_classes_are_listed_again_after_an_event_only() -> None:
    parts = Parts()
    parts.sweep()

    def lists() -> int:
        return len([c for c in parts.kube.calls if c[:2] == ("page", "trainsweepclasses")])

    for _ in range(3):
        seen = await parts.observed()
    assert seen.sweep_class is not None
    assert (seen.sweep_class.name, lists()) == ("standard", 1)
    parts.kube.put(SWEEP_CLASS, "second", metadata={"annotations": {"trainsweep.io/is-default-class": "true"}}, spec={})
    parts.classes.stale()
    assert "second, standard" in (await parts.observed()).class_error
    assert lists() == 2
    sweep = parts.kube.find(SWEEP, "digits")
    assert sweep is not None
    sweep["spec"]["className"] = "none-such"
    assert "none-such does not exist" in (await parts.observed()).class_error
    parts.kube.fault = lambda verb, kind, name: Denied("no") if kind == SWEEP_CLASS else None
    parts.classes.stale()
    assert "ClusterRole" in (await parts.observed()).class_error
    parts.kube.fault = lambda verb, kind, name: Unavailable("503") if kind == SWEEP_CLASS else None
    with pytest.raises(Unavailable):
        await parts.observer.observe(KEY)


async def test_of_a_class_that_is_gone_the_copy_serves_and_of_one_that_cannot_be_read_nothing() -> None:
    parts = Parts()
    granted = {"allowedPrefixes": ["s3://bucket/team"], "defaults": {"checkpoints": {"require": "AllReported"}}}
    status = {"resolved": {"className": "standard", "classUid": "u", "granted": granted}}
    parts.sweep(attempt=1, status=status)
    before = await parts.observed()
    assert (before.class_error, getattr(before.sweep_class, "uid", "")) == ("", "uid-1")  # one that exists wins
    parts.kube.fault = lambda verb, kind, name: Denied("no") if kind is SWEEP_CLASS else None
    parts.classes.stale()
    assert (await parts.observed()).sweep_class is None
    parts.kube.fault = None
    del parts.kube.objects["trainsweepclasses", "", "standard"]
    parts.classes.stale()
    seen = await parts.observed()
    assert "does not exist any more: create it again under that name" in seen.class_error
    assert seen.sweep_class is not None
    where = access_of(seen.sweep, seen.sweep_class)
    assert isinstance(where, Access)
    assert where.spec.checkpoints.require == "AllReported"
    # A forged status gains nothing by it: the place must be the run's own, below the copied prefix.
    for forged in ("s3://bucket/other/team-a/digits/x", RUN_URI.replace("digits", "others")):
        parts.sweep(attempt=1, status={**status, "runURI": forged})
        seen = await parts.observed()
        assert isinstance(access_of(seen.sweep, seen.sweep_class), Unreadable)


async def test_the_resync_adds_what_is_active_and_what_has_vanished() -> None:
    parts = Parts()
    parts.sweep()
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    parts.kube.put(SWEEP, "done", status=finished)
    parts.kube.put(SWEEP, "held", status=finished, metadata={"finalizers": [FINALIZER]})
    added: list[SweepKey] = []
    ghost = SweepKey("team-a", "ghost")
    await resync(parts.kube, (), {ghost, KEY}, added.append)
    assert sorted(added) == [KEY, ghost, SweepKey("team-a", "held")]
    parts.kube.fault = lambda verb, kind, name: Unavailable("503")
    with pytest.raises(Unavailable):
        await resync(parts.kube, (), {ghost}, added.append)
    assert len(added) == 3


def test_a_sweep_that_is_being_deleted_is_never_at_rest() -> None:
    status = {"conditions": [{"type": "Finished", "status": "True"}]}
    assert at_rest({"metadata": {}, "status": status})
    assert not at_rest({"metadata": {"deletionTimestamp": "x"}, "status": status})
    assert not at_rest({"metadata": {}, "status": {"conditions": [{"type": "Finished", "status": "False"}]}})


async def test_orphans_go_only_when_nobody_can_want_them() -> None:
    parts = Parts()
    clock = [0.0]
    orphans = Orphans(parts.kube, (), lambda: clock[0])

    def hold(name: str, owner: str, uid: str, **more: str) -> None:
        marks = {**labels.identity(owner, uid, 1), **more}
        parts.kube.put(HOLD, name, metadata={"labels": marks})

    parts.sweep()
    hold("digits-x-a1-hold", "digits", UID)
    hold("gone-x-a1-hold", "gone", "u1")
    hold("recreated-x-a1-hold", "digits", "another-uid")
    hold("live-x-a1-hold", "live", "u2")
    hold("ended-x-a1-hold", "ended", "u3")
    hold("foreign", "nobody", "u4")
    parts.kube.put(RAY_JOB, "live-x-a1", status={"jobDeploymentStatus": "Running"})
    parts.kube.put(RAY_JOB, "ended-x-a1", status={"jobDeploymentStatus": "Complete"})  # not marked as ours
    assert await orphans.sweep() == 3
    left = {k[2] for k in parts.kube.objects if k[0] == "trainsweepholds"}
    assert left == {"digits-x-a1-hold", "live-x-a1-hold", "foreign"}
    clock[0] = 3599.0
    assert await orphans.sweep() == 0
    clock[0] = 3600.0
    assert await orphans.sweep() == 1
    assert parts.kube.find(HOLD, "digits-x-a1-hold") is not None


async def test_ray_jobs_without_a_sweep_go_and_so_do_those_of_attempts_that_another_one_has_followed() -> None:
    parts = Parts()
    clock = [0.0]
    orphans = Orphans(parts.kube, (), lambda: clock[0])

    def job(name: str, owner: str, uid: str, attempt: int, status: str) -> None:
        marks = labels.identity(owner, uid, attempt)
        parts.kube.put(RAY_JOB, name, metadata={"labels": marks}, status={"jobDeploymentStatus": status})

    parts.sweep()
    parts.kube.objects["trainsweeps", "team-a", "digits"]["status"] = {"attempt": 3}
    job("digits-x-a1", "digits", UID, 1, "Failed")
    job("digits-x-a2", "digits", UID, 2, "Running")  # as it cannot be: nobody's business but decide()'s
    job("digits-x-a3", "digits", UID, 3, "Failed")
    job("gone-x-a1", "gone", "u1", 1, "Complete")
    job("gone-x-a2", "gone", "u1", 2, "Running")
    assert await orphans.sweep() == 2
    assert {k[2] for k in parts.kube.objects if k[0] == "rayjobs"} == {"digits-x-a2", "digits-x-a3", "gone-x-a2"}
    clock[0] = 3600.0
    assert await orphans.sweep() == 1
    assert parts.kube.find(RAY_JOB, "gone-x-a2") is None


async def test_clusters_that_a_ray_job_left_behind_go_once_nobody_settles_them_any_more() -> None:
    parts = Parts()
    clock = [0.0]
    orphans = Orphans(parts.kube, (), lambda: clock[0])

    def cluster(name: str, owner: str, uid: str, attempt: int, **more: Any) -> None:
        parts.kube.put(RAY_CLUSTER, name, metadata={"labels": labels.identity(owner, uid, attempt), **more})

    def left() -> set[str]:
        return {k[2] for k in parts.kube.objects if k[0] == "rayclusters"}

    parts.sweep(attempt=2)
    cluster("followed", "digits", UID, 1)
    cluster("newest", "digits", UID, 2)  # decide()'s business
    cluster("owned", "digits", UID, 1, ownerReferences=[{"kind": "RayJob", "name": "x", "uid": "u"}])
    cluster("gone", "gone", "u1", 1)
    cluster("dying", "dying", "u2", 1)
    parts.kube.put(RAY_JOB, rayjob_name("dying", "u2", 1), metadata={"labels": labels.identity("dying", "u2", 1)})
    parts.kube.put(RAY_CLUSTER, "unmarked", metadata={"labels": {labels.MANAGED: "true"}})
    assert await orphans.sweep() == 1
    assert left() == {"newest", "owned", "gone", "dying", "unmarked"}
    clock[0] = 3600.0
    assert await orphans.sweep() == 2  # and the RayJob that was dying
    assert left() == {"newest", "owned", "dying", "unmarked"}
    parts.kube.objects["trainsweeps", "team-a", "digits"]["status"]["attempts"][-1]["goneAt"] = "2026-11-29T00:00:00Z"
    assert await orphans.sweep() == 1
    clock[0] = 7200.0
    assert await orphans.sweep() == 1
    assert left() == {"owned", "unmarked"}


async def test_leaving_is_refused_while_an_attempt_lives() -> None:
    parts = Parts()
    assert await live_sweeps(parts.kube, ()) == []
    parts.kube.put(SWEEP, "ended", metadata={"finalizers": ["somebody.else/x"]})
    assert await live_sweeps(parts.kube, ()) == []
    parts.kube.put(SWEEP, "running", metadata={"finalizers": [FINALIZER]})
    assert await live_sweeps(parts.kube, ("team-a",)) == ["team-a/running"]
    words = refusal([f"team-a/s{i}" for i in range(12)])
    assert "12 sweeps" in words
    assert "kubectl delete trainsweeps" in words
    assert "s11" not in words


async def test_an_unreadable_owner_keeps_its_hold() -> None:
    parts = Parts()
    parts.kube.put(HOLD, "a-x-a1-hold", metadata={"labels": labels.identity("a", "u1", 1)})
    parts.kube.fault = lambda verb, kind, name: Unavailable("503") if kind == SWEEP else None
    with pytest.raises(Unavailable):
        await Orphans(parts.kube, ()).sweep()
    assert parts.kube.find(HOLD, "a-x-a1-hold") is not None


async def test_what_is_missing_at_the_start_is_named() -> None:
    parts = Parts()
    assert await problems(parts.kube, ()) == []
    parts.kube.denied = {("update", "trainsweeps/status"), ("patch", "pods")}
    assert await missing_rights(parts.kube, ("team-a",)) == [
        "update trainsweeps/status.trainsweep.io in namespace team-a",
        "patch pods.core in namespace team-a",
    ]
    parts.kube.unserved = {"rayjobs"}
    assert "rayjobs.ray.io/v1; install KubeRay" in (await problems(parts.kube, ()))[0]
    assert all(verbs for _, _, verbs in RIGHTS)


async def test_kuberay_is_known_by_its_schema() -> None:
    parts = Parts()
    cluster: dict[str, Any] = {"properties": {"authOptions": {}}}
    parts.kube.schema_of = {
        "properties": {"spec": {"properties": {"rayClusterSpec": cluster, "preRunningDeadlineSeconds": {}}}}
    }
    newest = await detect_kuberay(parts.kube)
    assert (newest.token_auth, newest.pre_running_deadline) == (True, True)
    parts.kube.schema_of = {"properties": {"spec": {"properties": {"rayClusterSpec": {"properties": {}}}}}}
    oldest = await detect_kuberay(parts.kube)
    assert (oldest.token_auth, oldest.pre_running_deadline) == (False, False)
