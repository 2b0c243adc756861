"""KubeRay inside the cluster: our build of its operator, its own manifests read from its Go module at run time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from devcluster import golang, images, programs
from devcluster.report import step

if TYPE_CHECKING:
    from devcluster.cluster import Cluster

NAMESPACE = "kuberay-system"
_RBAC = ("service_account", "role", "role_binding", "leader_election_role", "leader_election_role_binding")


def install(cluster: Cluster) -> None:
    """Install CRDs, rights and Deployment, and wait until the operator runs.

    Raises:
        DevClusterError: a manifest is refused or the operator does not become ready.
    """
    program = programs.path("kuberay")
    version = programs.KUBERAY.version
    with step(f"KubeRay {version}", "10 s"):
        image = images.static("kuberay", version, program)
        cluster.load_image(image.archive)
        config = golang.module_dir(programs.KUBERAY) / "config"
        # Server-side: CRDs are too large for the annotation of client-side apply. Their files go to kubectl as they
        # are: PyYAML takes half a minute to read these 4 MB.
        files = sorted((config / "crd" / "bases").glob("*.yaml"))
        cluster.kubectl("apply", "--server-side", "--force-conflicts", *(word for one in files for word in ("-f", one)))
        apply_all(cluster, [namespace(NAMESPACE), *_operator(config, image.tag)])
        names = (".".join(reversed(one.stem.split("_"))) for one in files)  # ray.io_rayjobs.yaml
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in names))
        cluster.kubectl(
            "rollout", "status", "deployment/kuberay-operator", "-n", NAMESPACE, "--timeout=240s", timeout=300
        )


def _operator(config: Path, image: str) -> list[dict[str, Any]]:
    objects = _read(*(config / "rbac" / f"{name}.yaml" for name in _RBAC), config / "manager" / "manager.yaml")
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "Namespace")
    kept = [one for one in objects if one["kind"] != "Namespace"]
    for one in kept:
        if one["kind"] not in cluster_wide:
            one["metadata"]["namespace"] = NAMESPACE
        for subject in one.get("subjects", ()):
            subject["namespace"] = NAMESPACE
        if one["kind"] == "Deployment":
            container = one["spec"]["template"]["spec"]["containers"][0]
            container |= {"image": image, "imagePullPolicy": "Never", "command": ["/kuberay"]}
            # its 100m limit makes start-up slow, and its memory request is not needed here
            container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
            container["readinessProbe"] |= {"initialDelaySeconds": 1, "periodSeconds": 1, "failureThreshold": 60}
            # One replica has nobody to lose a lease to, and a busy machine is no reason to start anew.
            container["args"] = [*container.get("args", ()), "--enable-leader-election=false"]
            container["livenessProbe"] |= {"timeoutSeconds": 20}
    return kept


def namespace(name: str) -> dict[str, Any]:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def apply_all(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    """Apply objects server-side, in order."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(objects))


def _read(*files: Path) -> list[dict[str, Any]]:
    return [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
