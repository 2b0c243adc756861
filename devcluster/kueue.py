"""Kueue inside the cluster, from its own Helm chart in its Go module; built on demand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

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
        chart = golang.module_dir(programs.KUEUE) / "charts" / "kueue"
        argv: list[str | Path] = [cluster.helm_bin, "upgrade", "--install", "kueue", chart, "--namespace", NAMESPACE]
        argv += ["--create-namespace", "--kubeconfig", cluster.kubeconfig, "--values", "-"]
        run(argv, stdin=json.dumps(_values(chart, image.tag)), timeout=180)
        cluster.kubectl("rollout", "status", "deployment", "-n", NAMESPACE, "--timeout=180s", timeout=200)


def _values(chart: Path, tag: str) -> dict[str, Any]:
    """One replica from our image; it has nobody to lose a lease to, and a busy machine is no reason to start anew."""
    repository, _, version = tag.rpartition(":")
    shipped = yaml.safe_load((chart / "values.yaml").read_text())["managerConfig"]["controllerManagerConfigYaml"]
    config = yaml.safe_load(shipped)
    config["leaderElection"]["leaderElect"] = False
    return {
        "controllerManager": {
            "manager": {
                "image": {"repository": repository, "tag": version, "pullPolicy": "Never"},
                # Its own request is a quarter of a node of two cores, which Ray pods need.
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": None},
            },
            "replicas": 1,
            "livenessProbe": {"timeoutSeconds": 20},
            "readinessProbe": {"timeoutSeconds": 20},
        },
        "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(config)},
    }
