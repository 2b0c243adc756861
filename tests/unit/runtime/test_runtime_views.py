from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainsweep.api.status import TrainSweepStatus
from trainsweep.contract.documents import Control
from trainsweep.core.pending.chain import chain
from trainsweep.core.pending.situation import Situation
from trainsweep.runtime.keys import SweepKey, child_key, sweep_key
from trainsweep.runtime.pod_views import pod_view
from trainsweep.runtime.views import class_view, cluster_view, hold_view, ray_job_view, read_status, sweep_view
from trainsweep.runtime.waiting import stuck

OOM = "OOMKilled"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    ["metadata", "spec", "status", "labels", "annotations", "conditions", "containerStatuses", "state", "waiting"]
)
ODD = st.recursive(JSON, lambda inner: st.dictionaries(FIELDS, inner, max_size=5), max_leaves=12)
BODY = st.dictionaries(FIELDS, ODD, max_size=5)


@given(BODY)
def test_no_view_raises_on_odd_input(body: dict[str, Any]) -> None:
    assert sweep_view(body).status.attempt >= 0
    ray_job_view(body)
    cluster_view(body)
    hold_view(body)
    class_view(body)
    stuck([body], 1e9)
    chain(Situation(1e9, ray_job=body, ray_cluster=body, pods=(body,), events=(body,), workloads=(body,)))
    pod_view(body, [body])
    sweep_key(body)
    child_key(body, "trainsweep.io/sweep")


def test_what_does_not_fit_in_a_status_does_not_reset_the_attempts() -> None:
    good = {
        "attempt": 3,
        "attempts": [
            {"number": 1, "rayJob": "a-1", "futureField": 1},
            {"number": 2, "rayJob": "a-2", "endedAt": 17, "reason": ["x"]},
            {"number": 3, "rayJob": "a-3"},
        ],
        "retries": {"application": {"used": 2, "limit": "x"}},
        "conditions": [{"type": "Finished", "status": "Maybe"}, "odd", {"status": "True"}],
        "progress": "odd",
        "best": {"trial": "t1", "value": 3},
    }
    status = read_status(good)
    assert status.attempt == 3
    assert [a.number for a in status.attempts] == [1, 2, 3]
    assert status.attempts[1].reason == ""
    assert status.retries.application.used == 2
    assert status.best is None or status.best.trial == "t1"
    assert read_status(None) == read_status("x") == TrainSweepStatus()


def test_a_status_survives_the_way_to_the_api_server_and_back() -> None:
    status = read_status(
        {"attempt": 1, "attempts": [{"number": 1, "rayJob": "a", "rayJobUID": "u"}], "runURI": "s3://b"}
    )
    wire = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert read_status(wire) == status
    assert wire["attempts"][0]["rayJobUID"] == "u"


def test_a_sweep_keeps_its_spec_as_it_is_stored() -> None:
    view = sweep_view(
        {
            "metadata": {
                "namespace": "team-a",
                "name": "x",
                "uid": "u",
                "resourceVersion": "7",
                "generation": 2,
                "finalizers": ["a", 3],
                "annotations": {"k": "v", "n": 1},
                "deletionTimestamp": "2026-11-29T00:00:00Z",
            },
            "spec": {"trials": "many", "nonsense": [1]},
        }
    )
    assert view.spec == {"trials": "many", "nonsense": [1]}
    assert (view.finalizers, view.annotations, view.generation) == (("a",), {"k": "v"}, 2)
    assert view.deletion_requested_at == 1795910400.0
    assert sweep_view({"spec": "odd"}).spec == {}


def test_a_ray_job_of_someone_else_has_no_sweep_uid() -> None:
    view = ray_job_view(
        {
            "metadata": {
                "name": "a",
                "uid": "u",
                "deletionTimestamp": "x",
                "ownerReferences": [{"kind": "TrainSweepHold"}],
            },
            "spec": {"suspend": True, "ttlSecondsAfterFinished": 900, "activeDeadlineSeconds": True},
            "status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": "2026-11-29T00:00:00Z"},
        }
    )
    assert view.sweep_uid == ""
    assert (view.suspended, view.deleting, view.has_hold_owner) == (True, True, True)
    assert (view.ttl_seconds, view.active_deadline_seconds) == (900, None)
    assert view.ended_at == 1795910400.0


@pytest.mark.parametrize(
    ("status", "ready"),
    [("True", True), ("False", False), ("Unknown", None), (None, None)],
)
def test_the_head_is_seen_on_the_ray_cluster(status: str | None, ready: bool | None) -> None:
    conditions = [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]
    if status is not None:
        conditions.append({"type": "HeadPodReady", "status": status, "reason": "HeadPodNotFound", "message": "m"})
    view = cluster_view({"metadata": {"name": "c"}, "status": {"state": "ready", "conditions": conditions}})
    assert view.head_ready is ready
    assert view.replica_failure == "exceeded quota"


def pod(phase: str = "Pending", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "uid": "u", "labels": {"ray.io/node-type": "head"}},
        "status": {"phase": phase, **status},
    }


def waiting(reason: str, message: str = "words") -> list[dict[str, Any]]:
    return [{"name": "ray-head", "image": "img:1", "state": {"waiting": {"reason": reason, "message": message}}}]


@pytest.mark.parametrize(
    ("body", "layer", "reason", "words"),
    [
        (
            pod(
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ]
            ),
            "Placement",
            "Unschedulable",
            "0/3 nodes",
        ),
        (pod(containerStatuses=waiting("ImagePullBackOff")), "Image", "ImagePullBackOff", "img:1"),
        (pod(containerStatuses=waiting("InvalidImageName")), "Image", "InvalidImageName", "words"),
        (pod(containerStatuses=waiting("ErrImageNeverPull")), "Image", "ErrImageNeverPull", "words"),
        (
            pod(initContainerStatuses=waiting("CreateContainerConfigError")),
            "Config",
            "CreateContainerConfigError",
            "words",
        ),
        (
            pod(
                "Running",
                containerStatuses=[
                    {
                        "name": "sidecar",
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such file"}},
                    }
                ],
            ),
            "Container",
            "CrashLoopBackOff",
            "no such file",
        ),
        (
            pod(
                "Failed",
                containerStatuses=[
                    {"name": "ray-head", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
                ],
            ),
            "Container",
            OOM,
            "137",
        ),
        (pod("Running", containerStatuses=[{"name": "ray-head", "state": {"running": {}}}]), "", "", ""),
        (pod(containerStatuses=waiting("ContainerCreating")), "", "", ""),
    ],
)
def test_a_pod_says_why_it_does_not_run(body: dict[str, Any], layer: str, reason: str, words: str) -> None:
    view = pod_view(body)
    assert (view.problem_layer, view.problem_reason) == (layer, reason)
    assert words in view.problem_message


def test_events_are_asked_for_only_when_containers_are_in_the_making_for_long() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-29T00:00:00Z"}
    at = 1795910400.0
    body = pod(conditions=[scheduled], containerStatuses=waiting("ContainerCreating"))
    assert not stuck([body], at + 29)
    assert stuck([body], at + 31) == [body]
    assert not stuck([pod(conditions=[scheduled], containerStatuses=waiting("ErrImagePull"))], at + 31)
    assert not stuck([pod("Running", conditions=[scheduled])], at + 31)
    events = [
        {"reason": "FailedMount", "message": "old", "lastTimestamp": "2026-11-29T00:00:01Z"},
        {"reason": "FailedMount", "message": 'configmap "code" not found', "eventTime": "2026-11-29T00:00:40.123456Z"},
        {"reason": "Pulled", "message": "noise", "lastTimestamp": "2026-11-29T00:01:00Z"},
    ]
    view = pod_view(body, events)
    assert (view.problem_layer, view.problem_reason, view.problem_message) == (
        "Config",
        "FailedMount",
        'configmap "code" not found',
    )


def test_an_evicted_pod_says_so_and_a_foreign_control_annotation_reads_as_none() -> None:
    body = pod("Failed", reason="Evicted")
    body["metadata"]["annotations"] = {"trainsweep.io/control": "{not json"}
    view = pod_view(body)
    assert (view.exit_reason, view.control, view.head) == ("Evicted", None, True)
    body["metadata"]["annotations"] = {"trainsweep.io/control": Control(attempt_id="1-0b0e6c1e").to_json().decode()}
    assert pod_view(body).control == Control(attempt_id="1-0b0e6c1e")


def test_a_child_names_its_sweep_by_label() -> None:
    body = {"metadata": {"namespace": "team-a", "labels": {"trainsweep.io/sweep": "digits"}}}
    assert child_key(body, "trainsweep.io/sweep") == SweepKey("team-a", "digits")
    assert child_key({"metadata": {"namespace": "team-a"}}, "trainsweep.io/sweep") is None


def test_a_class_that_does_not_fit_names_its_field() -> None:
    view, error = class_view({"metadata": {"name": "c"}, "spec": {"limits": {"gpus": -1}}})
    assert view is None
    assert "spec.limits.gpus" in error
