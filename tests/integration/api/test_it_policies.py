"""The optional policies on a real API server: who is refused what, with which words, and who is let through."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import Cluster, golang, programs
from devcluster.waiting import wait_for
from tests.integration.apiserver import ApiServer
from trainsweep.contract.labels import CONTROL, FORCE_RELEASE

POLICIES = Path(__file__).parents[3] / "manifests/policies"
OPERATOR = "system:serviceaccount:trainsweep-system:trainsweep"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
NAMESPACES = "system:serviceaccount:kube-system:namespace-controller"
KUBERAY = "system:serviceaccount:kuberay-system:kuberay-operator"
TENANT = "jane"
SPACE = "policies"
JOBS = f"/apis/ray.io/v1/namespaces/{SPACE}/rayjobs"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
MERGE = "application/merge-patch+json"
OURS = {"trainsweep.io/managed": "true", "trainsweep.io/sweep": "digits"}
HOLD = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweepHold", "name": "digits-a1-hold", "uid": "1-2-3"}


def job(name: str, *, held: bool = True, ours: bool = True) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": OURS if ours else {"team": "a"}}
    if held:
        metadata["ownerReferences"] = [HOLD]
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": {"entrypoint": "python x.py"}}


def pod(name: str, *, ours: bool = True, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": OURS if ours else {"team": "a"}}
    if annotations:
        metadata["annotations"] = annotations
    spec = {"containers": [{"name": "ray-head", "image": "registry.example/x:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def policies(control_plane: Cluster, api: ApiServer) -> Iterator[ApiServer]:
    """The policies, and what they are about: held and other RayJobs, pods of ours and others."""
    bases = golang.module_dir(programs.KUBERAY) / "config" / "crd" / "bases"
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", bases / "ray.io_rayjobs.yaml")
    wait_for("RayJobs served", lambda: _not_established(api, "rayjobs.ray.io"), 60)
    control_plane.kubectl("apply", "-k", POLICIES)
    control_plane.kubectl("apply", "-k", POLICIES / "namespaces")
    try:
        for name, labels in ((SPACE, {}), ("guarded", {"trainsweep.io/guard": "true"}), ("free", {})):
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        control_plane.kubectl("create", "serviceaccount", "runner", "-n", SPACE)
        # The garbage collector strips the reference to a hold that is not there: hold the object with one that is.
        status, hold = api.call(
            "POST",
            f"/apis/trainsweep.io/v1alpha1/namespaces/{SPACE}/trainsweepholds",
            {"apiVersion": HOLD["apiVersion"], "kind": HOLD["kind"], "metadata": {"name": HOLD["name"]}},
        )
        assert status == 201, hold
        HOLD["uid"] = hold["metadata"]["uid"]
        for item in (job("held"), job("free", held=False), job("theirs", ours=False)):
            status, answer = api.call("POST", JOBS, item)
            assert status == 201, answer
        for item in (pod("head"), pod("stopping", annotations={CONTROL: "{}", "team": "a"}), pod("other", ours=False)):
            item["spec"]["serviceAccountName"] = "runner"
            status, answer = api.call("POST", PODS, item)
            assert status == 201, answer
        _in_force(api)
        yield api
    finally:
        control_plane.kubectl("delete", "-k", POLICIES / "namespaces", "--wait=true")
        control_plane.kubectl("delete", "-k", POLICIES, "--wait=true")
        control_plane.kubectl("delete", "namespace", SPACE, "guarded", "free", "--wait=false", "--ignore-not-found")


def _not_established(api: ApiServer, name: str) -> str | None:
    status = api.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")[1].get("status") or {}
    found = [c for c in status.get("conditions") or [] if c["type"] == "Established" and c["status"] == "True"]
    return None if found else "not established"


def _in_force(api: ApiServer) -> None:
    """The API server takes a new policy into use within seconds."""
    until = time.monotonic() + 60
    while True:
        answers = [
            api.call("DELETE", f"{JOBS}/held", dryRun="All")[0],
            annotate(api, "head", TENANT, {CONTROL: "x"})[0],
            api.call("DELETE", "/api/v1/namespaces/guarded", dryRun="All")[0],
        ]
        if all(status in (403, 422) for status in answers):
            return
        assert time.monotonic() < until, answers
        time.sleep(0.5)


def annotate(api: ApiServer, name: str, user: str, annotations: dict[str, str | None]) -> tuple[int, str]:
    body = {"metadata": {"annotations": annotations}}
    return said(api.call("PATCH", f"{PODS}/{name}", body, content_type=MERGE, user=user, dryRun="All"))


def said(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], str(answer[1].get("message", ""))


@pytest.mark.parametrize("user", [TENANT, "kubernetes-admin", KUBERAY])
def test_a_held_rayjob_is_deleted_by_nobody_else_and_the_message_says_what_to_do(
    policies: ApiServer, user: str
) -> None:
    status, message = said(policies.call("DELETE", f"{JOBS}/held", user=user))
    assert status == 403
    assert "RayJob held is held until the checkpoints of TrainSweep digits are proven" in message
    assert f"{FORCE_RELEASE}=true" in message
    assert policies.call("GET", f"{JOBS}/held")[0] == 200


def test_deleting_them_all_at_once_is_no_way_round(policies: ApiServer) -> None:
    policies.call("DELETE", JOBS, user=TENANT, labelSelector="trainsweep.io/sweep=digits", dryRun="All")
    assert policies.call("GET", f"{JOBS}/held")[0] == 200
    status, _ = said(policies.call("DELETE", JOBS, user=TENANT, fieldSelector="metadata.name=held"))
    assert status == 403


@pytest.mark.parametrize("user", [OPERATOR, COLLECTOR, NAMESPACES])
def test_the_operator_and_the_control_plane_may_delete_it(policies: ApiServer, user: str) -> None:
    assert policies.call("DELETE", f"{JOBS}/held", user=user, dryRun="All")[0] == 200


@pytest.mark.parametrize("name", ["free", "theirs"])
def test_a_rayjob_that_is_not_held_is_its_owner_s(policies: ApiServer, name: str) -> None:
    assert policies.call("DELETE", f"{JOBS}/{name}", user=TENANT, dryRun="All")[0] == 200


@pytest.mark.parametrize(
    ("name", "change"),
    [("head", {CONTROL: "{}"}), ("stopping", {CONTROL: '{"stop":null}'}), ("stopping", {CONTROL: None})],
    ids=["set", "changed", "removed"],
)
def test_the_control_annotation_is_written_by_the_operator_alone(
    policies: ApiServer, name: str, change: dict[str, str | None]
) -> None:
    status, message = annotate(policies, name, TENANT, change)
    assert status == 403
    assert "only the operator may write the annotation trainsweep.io/control" in message
    assert annotate(policies, name, OPERATOR, change)[0] == 200


def test_others_may_annotate_and_label_the_pod_as_ever(policies: ApiServer) -> None:
    assert annotate(policies, "stopping", TENANT, {"team": "b", "x": "y"})[0] == 200
    body = {"metadata": {"labels": {"ray.io/x": "y"}}}
    assert policies.call("PATCH", f"{PODS}/head", body, content_type=MERGE, user=KUBERAY, dryRun="All")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"annotations": {"x": "y"}}},
        {"metadata": {"annotations": {"team": None, CONTROL: "{}"}}},
        {"metadata": {"annotations": {"team": "b"}}},
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"labels": {"trainsweep.io/managed": None}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"containers": [{"name": "ray-head", "image": "registry.example/evil:1"}]}},
    ],
    ids=str,
)
def test_the_operator_itself_patches_nothing_else(policies: ApiServer, body: dict[str, Any]) -> None:
    answer = policies.call(
        "PATCH",
        f"{PODS}/stopping",
        body,
        content_type="application/strategic-merge-patch+json",
        user=OPERATOR,
        dryRun="All",
    )
    status, message = said(answer)
    assert status == 403
    assert "the operator may patch the annotation trainsweep.io/control of a pod and nothing else" in message


def test_the_operator_patches_no_pod_of_others(policies: ApiServer) -> None:
    status, message = annotate(policies, "other", OPERATOR, {CONTROL: "{}"})
    assert status == 403
    assert "the pods of its own sweeps only" in message
    assert annotate(policies, "other", TENANT, {CONTROL: "{}"})[0] == 200


def test_a_guarded_namespace_stays_until_its_label_goes(policies: ApiServer) -> None:
    status, message = said(policies.call("DELETE", "/api/v1/namespaces/guarded", user=TENANT))
    assert status == 403
    assert "namespace guarded is guarded" in message
    assert "remove the label trainsweep.io/guard" in message
    assert policies.call("DELETE", "/api/v1/namespaces/free", user=TENANT, dryRun="All")[0] == 200
    unguard = {"metadata": {"labels": {"trainsweep.io/guard": None}}}
    assert policies.call("PATCH", "/api/v1/namespaces/guarded", unguard, content_type=MERGE)[0] == 200
    assert policies.call("DELETE", "/api/v1/namespaces/guarded", user=TENANT, dryRun="All")[0] == 200
