"""Kueue inside the cluster, from its own Helm chart in its Go module; built on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster import golang, images, programs
from devcluster.report import step
from devcluster.shell import run

if TYPE_CHECKING:
    from devcluster.cluster import Cluster

NAMESPACE = "kueue-system"


def install(cluster: Cluster) -> None:
    """Install Kueue and wait until its webhooks serve.

    Raises:
        DevClusterError: the chart is refused or the operator does not become ready.
    """
    program = programs.path("kueue")
    version = programs.KUEUE.version
    with step(f"Kueue {version}", "30 s"):
        image = images.static("manager", f"kueue-{version}", program)
        cluster.load_image(image.archive)
        repository, _, tag = image.tag.rpartition(":")
        values = {
            "controllerManager.manager.image.repository": repository,
            "controllerManager.manager.image.tag": tag,
            "controllerManager.manager.image.pullPolicy": "Never",
            "controllerManager.replicas": "1",
        }
        argv = [
            cluster.helm_bin,
            "upgrade",
            "--install",
            "kueue",
            golang.module_dir(programs.KUEUE) / "charts" / "kueue",
        ]
        argv += ["--namespace", NAMESPACE, "--create-namespace", "--kubeconfig", cluster.kubeconfig]
        for key, value in values.items():
            argv += ["--set", f"{key}={value}"]
        run([str(part) for part in argv], timeout=180)
        cluster.kubectl("rollout", "status", "deployment", "-n", NAMESPACE, "--timeout=180s", timeout=200)
