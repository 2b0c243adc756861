"""Everything that chart and kustomize bases render is taken by a strict API server, its pod by a restricted namespace."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.tools import helm, kubectl
from tests.integration.apiserver import ApiServer
from tests.unit.chart.test_chart_render import INSTALLS

ROOT = Path(__file__).parents[3]
SPACE = "charted"
PLURALS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "TrainSweepClass": "/apis/trainsweep.io/v1alpha1/trainsweepclasses",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
"""Where objects of a kind are made. Every one of these versions is served by Kubernetes 1.30 to 1.37."""
FOREIGN = ("ServiceMonitor", "Namespace")
"""Kinds of CRDs that are not ours, and what the test makes itself."""


@pytest.fixture(scope="module")
def space(control_plane: Cluster, api: ApiServer) -> Iterator[str]:
    """A restricted namespace, and the namespaces that installs watch."""
    enforce = {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/enforce-version": "latest",
    }
    for name, labels in ((SPACE, enforce), ("team-a", {}), ("team-b", {})):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    for account in ("trainsweep", "trainsweep-operator"):
        control_plane.kubectl("create", "serviceaccount", account, "-n", SPACE)
    yield SPACE
    control_plane.kubectl("delete", "namespace", SPACE, "team-a", "team-b", "--wait=false")


def rendered(values: dict[str, Any], *more: str) -> list[dict[str, Any]]:
    argv = [
        str(helm()),
        "template",
        "trainsweep",
        str(ROOT / "charts/trainsweep"),
        "--namespace",
        SPACE,
        "--values",
        "-",
        *more,
    ]
    text = subprocess.run(argv, input=yaml.safe_dump(values), capture_output=True, text=True, check=True).stdout
    return [item for item in yaml.safe_load_all(text) if item]


def kustomized(folder: str) -> list[dict[str, Any]]:
    done = subprocess.run([str(kubectl()), "kustomize", folder], capture_output=True, text=True, check=True, cwd=ROOT)
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def refusals(api: ApiServer, objects: list[dict[str, Any]], space: str = "") -> list[str]:
    """What the server says against each object; an object that is there already is looked at as well."""
    found = []
    for item in objects:
        if item["kind"] in FOREIGN:
            continue
        where = PLURALS[item["kind"]].format(space or item["metadata"].get("namespace", ""))
        body = copy.deepcopy(item)
        body["metadata"]["name"] += "-dry" if body["kind"] in ("ServiceAccount", "TrainSweepClass") else ""
        if space and "namespace" in body["metadata"]:
            body["metadata"]["namespace"] = space
        status, answer = api.call("POST", where, body, dryRun="All", fieldValidation="Strict")
        if status not in (201, 409):
            found.append(f"{item['kind']} {item['metadata']['name']}: {answer.get('message')}")
    return found


@pytest.mark.parametrize("install", INSTALLS)
def test_every_object_of_the_chart_is_taken(api: ApiServer, space: str, install: str) -> None:
    objects = rendered(INSTALLS[install])
    assert refusals(api, objects) == []


@pytest.mark.parametrize("install", INSTALLS)
def test_every_pod_of_the_chart_is_taken_by_a_restricted_namespace(api: ApiServer, space: str, install: str) -> None:
    templates = [o["spec"]["template"] for o in rendered(INSTALLS[install]) if o["kind"] in ("Deployment", "Job")]
    assert templates
    for number, template in enumerate(templates):
        spec = copy.deepcopy(template["spec"])
        spec.pop("priorityClassName", None)  # a class of the platform team's
        spec["serviceAccountName"] = "trainsweep"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}
        status, answer = api.call(
            "POST", f"/api/v1/namespaces/{space}/pods", pod, dryRun="All", fieldValidation="Strict"
        )
        assert status == 201, answer


def test_a_pod_that_is_not_restricted_is_refused_there(api: ApiServer, space: str) -> None:
    spec = {"containers": [{"name": "x", "image": "x", "securityContext": {"privileged": True}}]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bad"},
        "spec": spec | {"serviceAccountName": "trainsweep"},
    }
    status, answer = api.call("POST", f"/api/v1/namespaces/{space}/pods", pod, dryRun="All")
    assert (status, "restricted" in answer["message"]) == (403, True)


def test_an_unknown_field_is_refused_there(api: ApiServer, space: str) -> None:
    (deployment,) = [o for o in rendered({}) if o["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["nodeSelecter"] = {}
    assert "nodeSelecter" in refusals(api, [deployment])[0]


@pytest.mark.parametrize(
    "folder", ["manifests/default", "manifests/overlays/namespaced", "manifests/overlays/eks", "manifests/policies"]
)
def test_every_object_of_kustomize_is_taken(api: ApiServer, space: str, folder: str) -> None:
    assert refusals(api, kustomized(folder), space) == []
