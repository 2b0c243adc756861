"""What a tenant with the cluster's own edit role can do and cannot, each an attempt on a real API server.

Rights are refused by the API server. What a right cannot express (names outside the class, a hostPath) is refused by the
operator: one pass of it is made here, with its real client, on the object that the API server took.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.errors import DevClusterError
from trainsweep.core.decide import decide
from trainsweep.core.model import CreateRayJob
from trainsweep.render.kuberay import KubeRay
from trainsweep.runtime.apply import Applier
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube_client import KubeClient, load_configuration
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.observe import Observer
from trainsweep.runtime.recorder import Recorder

RBAC = Path(__file__).parents[3] / "manifests/default/rbac.yaml"
SPACE = "tenants"
JANE = ("--as=jane", "--as-group=system:authenticated")
CLASS: dict[str, Any] = {
    "storage": {"allowedPrefixes": ["s3://ml-runs/{namespace}"]},
    "allowed": {"serviceAccounts": ["trainer"], "queues": ["team-a"], "priorityClasses": [], "nodeSelectorKeys": []},
    "limits": {"trials": 8, "gpus": 4},
}
SPEC: dict[str, Any] = {
    "className": "tenants",
    "objective": {"metric": "loss", "mode": "Minimize"},
    "search": {"algorithm": {"random": {}}, "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1}}]},
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {"entrypoint": "train:loop", "image": "registry.example/train:1"},
    "storage": {"uri": "s3://ml-runs/tenants", "serviceAccountName": "trainer"},
}
Kubectl = Callable[..., str]


def sweep(name: str, **changes: Any) -> str:
    body = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweep", "metadata": {"name": name}}
    return json.dumps({**body, "spec": {**SPEC, **changes}})


@pytest.fixture(scope="module")
def jane(control_plane: Cluster) -> Iterator[Kubectl]:
    """kubectl as a person with the edit role in one namespace, and nothing else."""
    roles = [item for item in yaml.safe_load_all(RBAC.read_text(encoding="utf-8")) if item["kind"] == "ClusterRole"]
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))
    control_plane.kubectl("create", "namespace", SPACE)
    control_plane.kubectl("create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane", "-n", SPACE)
    made = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweepClass", "metadata": {"name": "tenants"}}
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps({**made, "spec": CLASS}))

    def kubectl(*arguments: str, stdin: str | None = None) -> str:
        return control_plane.kubectl(*arguments, *JANE, "-n", SPACE, stdin=stdin)

    until = time.monotonic() + 60
    while "trainsweeps" not in control_plane.kubectl("get", "clusterrole", "edit", "-o", "yaml"):
        assert time.monotonic() < until, "the edit role was never aggregated"
        time.sleep(0.5)
    try:
        yield kubectl
    finally:
        control_plane.kubectl("delete", "trainsweepclass", "tenants")
        control_plane.kubectl("delete", "namespace", SPACE, "--wait=false")


def refused(kubectl: Kubectl, *arguments: str, stdin: str | None = None) -> str:
    with pytest.raises(DevClusterError) as told:
        kubectl(*arguments, stdin=stdin)
    return str(told.value)


async def _pass(name: str) -> tuple[dict[str, Any], bool]:
    """One pass of the operator; the status that it wrote, and whether it would make a RayJob."""
    kube = KubeClient(await load_configuration())
    try:
        metrics, memory = Metrics(), Memory()
        looks = Looks(lambda _: None, metrics)
        observer = Observer(kube, Classes(kube), looks, memory, KubeRay())
        observed = await observer.observe(SweepKey(SPACE, name))
        assert observed is not None
        plan = decide(observed, time.time())
        launches = any(isinstance(action, CreateRayJob) for action in plan.actions)
        if not launches:
            await Applier(kube, looks, Recorder(kube), memory, metrics).apply(observed, plan)
        return (plan.status.model_dump(by_alias=True) if plan.status else {}), launches
    finally:
        await kube.close()


def judged(cluster: Cluster, name: str) -> tuple[dict[str, Any], bool]:
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    try:
        return asyncio.run(_pass(name))
    finally:
        if before is None:
            del os.environ["KUBECONFIG"]
        else:
            os.environ["KUBECONFIG"] = before


def test_a_tenant_runs_changes_and_deletes_sweeps(control_plane: Cluster, jane: Kubectl) -> None:
    jane("create", "-f", "-", stdin=sweep("mine"))
    _, launches = judged(control_plane, "mine")
    assert launches
    jane("patch", "trainsweep", "mine", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    assert "mine" in jane("get", "trainsweeps")
    jane("delete", "trainsweep", "mine", "--wait=false")


@pytest.mark.parametrize("verb", ["update", "delete", "create"])
def test_a_tenant_cannot_raise_a_ceiling_of_a_class(jane: Kubectl, verb: str) -> None:
    arguments = {
        "update": ("replace", "--raw=/apis/trainsweep.io/v1alpha1/trainsweepclasses/tenants", "-f", "-"),
        "delete": ("delete", "trainsweepclass", "tenants"),
        "create": ("create", "-f", "-"),
    }[verb]
    own = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweepClass", "metadata": {"name": "own"}, "spec": {}}
    told = refused(jane, *arguments, stdin=None if verb == "delete" else json.dumps(own))
    assert f'User "jane" cannot {verb} resource "trainsweepclasses" in API group "trainsweep.io"' in told


def test_a_tenant_cannot_write_a_status(jane: Kubectl) -> None:
    jane("create", "-f", "-", stdin=sweep("status"))
    told = refused(
        jane,
        "replace",
        f"--raw=/apis/trainsweep.io/v1alpha1/namespaces/{SPACE}/trainsweeps/status/status",
        "-f",
        "-",
        stdin=sweep("status"),
    )
    assert 'User "jane" cannot update resource "trainsweeps/status"' in told
    # Through the object itself a status is left out, silently, as with every status subresource.
    jane("patch", "trainsweep", "status", "--type=merge", "-p", '{"status":{"runURI":"s3://ml-runs/team-b"}}')
    assert "team-b" not in jane("get", "trainsweep", "status", "-o", "json")


@pytest.mark.parametrize("what", ["rayjobs/held", "trainsweepholds/held"])
def test_a_tenant_cannot_delete_a_held_rayjob_or_its_hold(jane: Kubectl, what: str) -> None:
    """Where KubeRay's editor role gives more, the policy of manifests/policies holds it: see test_it_policies."""
    plural, name = what.split("/")
    group = "ray.io/v1" if plural == "rayjobs" else "trainsweep.io/v1alpha1"
    told = refused(jane, "delete", f"--raw=/apis/{group}/namespaces/{SPACE}/{plural}/{name}")
    assert f'User "jane" cannot delete resource "{plural}"' in told


HOST_PATH = {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}
OUTSIDE: dict[str, tuple[dict[str, Any], str, str]] = {
    "service-account": (
        {"storage": {"uri": "s3://ml-runs/tenants", "serviceAccountName": "admin"}},
        "NotAllowed",
        "spec.storage.serviceAccountName: ServiceAccount admin is not allowed by the class",
    ),
    "queue": (
        {"scheduling": {"queueName": "team-b"}},
        "NotAllowed",
        "spec.scheduling.queueName: queue team-b is not allowed by the class",
    ),
    "priority": (
        {"scheduling": {"priorityClassName": "system-node-critical"}},
        "NotAllowed",
        "spec.scheduling.priorityClassName",
    ),
    "nodes": ({"cluster": {"head": {"nodeSelector": {"node-role.kubernetes.io/control-plane": ""}}}}, "NotAllowed",
              "spec.cluster.head.nodeSelector"),
    "host-path": ({"cluster": {"head": {"podTemplate": HOST_PATH}}}, "NotAllowed",
                  "spec.cluster.head.podTemplate.spec.volumes[0].hostPath"),
    "prefix": ({"storage": {"uri": "s3://ml-runs/team-b"}}, "StorageNotAllowed", "s3://ml-runs/tenants"),
    "trials": ({"trials": {"count": 9}}, "LimitExceeded", "lower it to at most 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_tenant_cannot_leave_its_class(control_plane: Cluster, jane: Kubectl, name: str) -> None:
    changes, reason, words = OUTSIDE[name]
    jane("create", "-f", "-", stdin=sweep(name, **changes))
    status, launches = judged(control_plane, name)
    assert not launches
    found = next(c for c in status["conditions"] if c["type"] == "Admitted")
    assert (found["status"], found["reason"]) == ("False", reason), found
    assert words in found["message"], found["message"]
    stored = json.loads(jane("get", "trainsweep", name, "-o", "json"))
    assert stored["status"]["pending"]["layer"] == "Spec"
    assert words in stored["status"]["pending"]["message"]
