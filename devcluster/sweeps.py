"""TrainSweep itself on a dev cluster: both images, the chart, and the default class that holds what is peculiar to it.

The training environment that pods mount, the S3 endpoint and its Secret, and pods that ask for less than they may use:
all of it stands in the class, so that an example is exactly the file that a user would write.
"""

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import images
from devcluster.cluster import BUCKET, Cluster
from devcluster.errors import DevClusterError
from devcluster.paths import SOURCE
from devcluster.report import step
from devcluster.s3 import REGION
from devcluster.shell import run

ROOT = SOURCE.parent
OPERATOR_IMAGE = "localhost/trainsweep/operator:dev"
TRAIN_IMAGE = "localhost/trainsweep/train:dev"
NAMESPACE = "trainsweep-system"
SECRET = "trainsweep-s3"
CLASS = "devcluster"
RELEASE = "trainsweep"


_PATIENCE = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "120",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "300",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_worker_register_timeout_seconds": "300",
}
"""What starts in seconds on a node needs minutes on two cores that start other clusters: a head ended there after a minute,
before its dashboard's agent had answered, and with it an attempt. Ray's own limits are 30 to 60 s."""


@dataclass(frozen=True)
class Images:
    """Tags of both images of a build."""

    operator: str
    train: str


def build_images(cluster: Cluster, tree: Path = ROOT, tag: str = "dev") -> Images:
    """Build both targets of the Dockerfile on the base image and put them on the node.

    Args:
        cluster: the cluster.
        tree: the project; another one than this for what is upgraded from.
        tag: tag of both images.
    """
    built = Images(f"{OPERATOR_IMAGE.rsplit(':', 1)[0]}:{tag}", f"{TRAIN_IMAGE.rsplit(':', 1)[0]}:{tag}")
    pip = {k: v for k in ("PIP_INDEX_URL",) if (v := os.environ.get(k) or _pip_index())}
    with step("operator image", "40 s"):
        cluster.build_image(
            tree / "Dockerfile", "operator", built.operator, {"OPERATOR_BASE": cluster.base_image, **pip}, tree
        )
    with step("train image", "10 s"):
        cluster.build_image(
            tree / "Dockerfile", "train", built.train, {"TRAIN_BASE": cluster.base_image, "TRAIN_INSTALL": "none"}, tree
        )
    return built


def _pip_index() -> str:
    try:
        return run(["python3", "-m", "pip", "config", "get", "global.index-url"]).strip()
    except DevClusterError:
        return ""


def s3_secret(cluster: Cluster, namespace: str, *, key: str | None = None, secret: str | None = None) -> dict[str, Any]:
    """The Secret with which pods of a namespace reach the S3 server; other credentials on request."""
    data = {
        "AWS_ACCESS_KEY_ID": key or cluster.s3_access_key,
        "AWS_SECRET_ACCESS_KEY": secret or cluster.s3_secret_key,
        "AWS_REGION": REGION,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()},
    }


def default_class(cluster: Cluster, name: str = CLASS) -> dict[str, Any]:
    """The class that serves every sweep on this cluster that names none."""
    env = cluster.trainenv
    path = f"{env.path}/bin:/usr/local/bin:/usr/bin:/bin"

    def overlay(container: str, cpu: str, memory: str) -> dict[str, Any]:
        # Two cores carry head, workers and the control plane: pods ask for little and are held to their memory only.
        return {
            "spec": {
                "terminationGracePeriodSeconds": 30,
                # The mounted environment lies in a home directory, which only its owner may enter.
                "securityContext": {"runAsUser": 0},
                "volumes": env.volumes(),
                "containers": [
                    {
                        "name": container,
                        "imagePullPolicy": "Never",
                        "env": [
                            {"name": "PATH", "value": path},
                            {"name": "RAY_DISABLE_IMPORT_WARNING", "value": "1"},
                            {"name": "OMP_NUM_THREADS", "value": "1"},
                            *({"name": name, "value": value} for name, value in _PATIENCE.items()),
                        ],
                        "volumeMounts": env.volume_mounts(),
                        "resources": {"requests": {"cpu": cpu, "memory": memory}},
                    }
                ],
            }
        }

    return {
        "apiVersion": "trainsweep.io/v1alpha1",
        "kind": "TrainSweepClass",
        "metadata": {"name": name, "annotations": {"trainsweep.io/is-default-class": "true"}},
        "spec": {
            "defaults": {
                "training": {"image": TRAIN_IMAGE},
                "storage": {"uri": f"s3://{BUCKET}", "region": REGION, "endpointURL": cluster.s3_endpoint},
            },
            "storage": {
                "allowedPrefixes": [f"s3://{BUCKET}"],
                "endpoints": [cluster.s3_endpoint],
                "credentialsSecret": SECRET,
            },
            "podOverlay": {
                "head": overlay("ray-head", "200m", "512Mi"),
                "worker": overlay("ray-worker", "200m", "512Mi"),
            },
        },
    }


def install(
    cluster: Cluster,
    *,
    operator_env: dict[str, str] | None = None,
    chart: Path = ROOT / "charts" / "trainsweep",
    image: str = OPERATOR_IMAGE,
) -> None:
    """Install or upgrade chart, Secret and default class, and wait until the operator is ready."""
    apply(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for namespace in (NAMESPACE, "default"):
        apply(cluster, s3_secret(cluster, namespace))
    values = {
        "image": {"repository": image.rsplit(":", 1)[0], "tag": image.rsplit(":", 1)[1], "pullPolicy": "Never"},
        "extraEnvFrom": [{"secretRef": {"name": SECRET}}],
        "extraEnv": [{"name": k, "value": v} for k, v in (operator_env or {}).items()],
        # The tag stays while the code changes: the annotation makes the Deployment take the new image.
        "podAnnotations": {"devcluster/image": images.digest(cluster.instance, image)},
    }
    with step("operator", "15 s"):
        run(
            [
                cluster.helm_bin,
                "upgrade",
                "--install",
                RELEASE,
                chart,
                "--namespace",
                NAMESPACE,
                "--kubeconfig",
                cluster.kubeconfig,
                "--values",
                "-",
            ],
            stdin=json.dumps(values),
            timeout=120,
        )
        cluster.kubectl("wait", "--for=condition=Established", "crd/trainsweepclasses.trainsweep.io", "--timeout=30s")
        apply(cluster, default_class(cluster))
        cluster.kubectl(
            "rollout",
            "status",
            "deployment",
            "-n",
            NAMESPACE,
            "-l",
            "app.kubernetes.io/name=trainsweep",
            "--timeout=90s",
        )


def apply(cluster: Cluster, *objects: dict[str, Any] | Path) -> str:
    """Server-side apply of objects or of a file."""
    out = ""
    for item in objects:
        if isinstance(item, Path):
            out += cluster.kubectl("apply", "--server-side", "-f", item)
        else:
            out += cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(item))
    return out
