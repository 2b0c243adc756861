"""Pod templates of the head and the worker groups, before the overlays of a sweep and its class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.api.workload import Toleration
from trainsweep.contract import labels
from trainsweep.plan import quantity
from trainsweep.plan.shapes import Shape
from trainsweep.render.env import ray_env, ray_env_from

HEAD_CONTAINER = "ray-head"
WORKER_CONTAINER = "ray-worker"
CONTROL_VOLUME = "trainsweep-control"
SOURCE_VOLUME = "trainsweep-source"
SHM_VOLUME = "shared-mem"
HEAD_GRACE = 120
"""Seconds between preStop and SIGKILL on the head; a spot notice leaves no more."""
WORKER_GRACE = 60
LEAVE_SECONDS = 50
"""How long a worker that is being stopped trains on while the head lives; then Ray ends there, within its grace."""
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
STAY = {"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


def _toleration(item: Toleration) -> dict[str, Any]:
    out: dict[str, Any] = {"operator": item.operator}
    out |= {k: v for k, v in (("key", item.key), ("value", item.value), ("effect", item.effect)) if v}
    if item.toleration_seconds is not None:
        out["tolerationSeconds"] = item.toleration_seconds
    return out


def _tolerations(written: Sequence[Toleration], resources: Mapping[str, str]) -> list[dict[str, Any]]:
    out = [_toleration(t) for t in written]
    if quantity.gpus(resources) and GPU_TOLERATION not in out:
        out.append(dict(GPU_TOLERATION))
    return out


def _shared_memory(resources: Mapping[str, str]) -> dict[str, Any]:
    """Half of the pod's memory for plasma, NCCL and data loaders: it counts as the pod's memory, so not all of it."""
    half = int(quantity.parse(resources["memory"])) // 2
    return {"name": SHM_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": str(half)}}


def _source(spec: TrainSweepSpec) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    source = spec.training.source
    if source is None or source.config_map is None:
        return [], []
    volume = {"name": SOURCE_VOLUME, "configMap": {"name": source.config_map.name}}
    return [volume], [{"name": SOURCE_VOLUME, "mountPath": labels.SOURCE_DIR, "readOnly": True}]


def _common(spec: TrainSweepSpec) -> dict[str, Any]:
    # Never: a restarted Ray container loses its state and would make HTTPMode submit the job again.
    out: dict[str, Any] = {"restartPolicy": "Never"}
    if spec.storage.service_account_name:
        out["serviceAccountName"] = spec.storage.service_account_name
    if spec.scheduling.priority_class_name:
        out["priorityClassName"] = spec.scheduling.priority_class_name
    if spec.training.image_pull_secrets:
        out["imagePullSecrets"] = [{"name": s.name} for s in spec.training.image_pull_secrets]
    return out


def _container(
    name: str,
    spec: TrainSweepSpec,
    sweep_class: TrainSweepClassSpec | None,
    resources: Mapping[str, str],
    mounts: list[dict[str, Any]],
) -> dict[str, Any]:
    out: dict[str, Any] = {
        "name": name,
        "image": spec.training.image,
        # Equal requests and limits: a GPU needs it, and a pod that may grow is the first to be evicted.
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "env": ray_env(spec, sweep_class, head=name == HEAD_CONTAINER),
        "volumeMounts": [{"name": SHM_VOLUME, "mountPath": "/dev/shm"}, *mounts],  # noqa: S108 - a mount, not a file of ours
    }
    if env_from := ray_env_from(spec, sweep_class):
        out["envFrom"] = env_from
    return out


def head_template(
    spec: TrainSweepSpec,
    sweep_class: TrainSweepClassSpec | None,
    resources: Mapping[str, str],
    metadata: dict[str, dict[str, str]],
) -> dict[str, Any]:
    """The head pod: driver, trial drivers and Train's controllers run there."""
    source_volumes, source_mounts = _source(spec)
    control = {
        "name": CONTROL_VOLUME,
        # A pod's own annotation reaches the pod within a second; a ConfigMap takes a minute.
        "downwardAPI": {
            "items": [
                {"path": labels.SWEEP_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{labels.SWEEP}']"}},
                {"path": labels.CONTROL_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{labels.CONTROL}']"}},
            ]
        },
    }
    mounts = [{"name": CONTROL_VOLUME, "mountPath": labels.CONTROL_DIR, "readOnly": True}, *source_mounts]
    container = _container(HEAD_CONTAINER, spec, sweep_class, resources, mounts)
    container["lifecycle"] = {"preStop": {"exec": {"command": ["python", "-m", "trainjobs", "stop"]}}}
    head = spec.cluster.head
    body = _common(spec) | {
        "terminationGracePeriodSeconds": HEAD_GRACE,
        "containers": [container],
        "volumes": [_shared_memory(resources), control, *source_volumes],
    }
    if head.node_selector:
        body["nodeSelector"] = dict(head.node_selector)
    if tolerations := _tolerations(head.tolerations, {}):
        body["tolerations"] = tolerations
    return {"metadata": metadata, "spec": body}


def worker_template(
    spec: TrainSweepSpec,
    sweep_class: TrainSweepClassSpec | None,
    shape: Shape,
    metadata: dict[str, dict[str, str]],
) -> dict[str, Any]:
    """A worker pod of one group: training workers and nothing else."""
    source_volumes, source_mounts = _source(spec)
    container = _container(WORKER_CONTAINER, spec, sweep_class, shape.resources, source_mounts)
    leave = ["python", "-m", "trainjobs", "leave", "--wait", str(LEAVE_SECONDS)]
    container["lifecycle"] = {"preStop": {"exec": {"command": leave}}}
    body = _common(spec) | {
        "terminationGracePeriodSeconds": WORKER_GRACE,
        "containers": [container],
        "volumes": [_shared_memory(shape.resources), *source_volumes],
    }
    written = shape.group
    if written is not None and written.node_selector:
        body["nodeSelector"] = dict(written.node_selector)
    if tolerations := _tolerations(written.tolerations if written is not None else [], shape.resources):
        body["tolerations"] = tolerations
    return {"metadata": metadata, "spec": body}
