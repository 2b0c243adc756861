"""`render()`: the RayJob of one attempt.

Everything in it has a measured reason; what is not obvious says it in place.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from trainsweep.api import API_VERSION
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract import labels
from trainsweep.contract.canonical import digest
from trainsweep.contract.documents import Control, Limits, StoreRef, SweepFile, SweepRef
from trainsweep.contract.layout import attempt_id, run_location
from trainsweep.plan import quantity
from trainsweep.plan.plan import Plan, plan
from trainsweep.plan.shapes import Shape
from trainsweep.render.env import ALLOCATE_TIMEOUT
from trainsweep.render.kuberay import KubeRay
from trainsweep.render.merge import container_of, for_pod, merge
from trainsweep.render.overlay import harden
from trainsweep.render.pods import HEAD_CONTAINER, STAY, WORKER_CONTAINER, head_template, worker_template
from trainsweep.render.validation import check

__all__ = [
    "KubeRay",
    "RenderInput",
    "check",
    "hold_name",
    "owner_references",
    "rayjob_name",
    "render",
    "render_plan",
    "spec_digest",
    "sweep_file",
]

ENTRYPOINT = "python -m trainjobs"
TRIAL_RESOURCE = "trial_slot"
HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
TOKEN_MIN_RAY = (2, 52)
STARTUP_MARGIN = 120
"""KubeRay's start-up deadline is the backstop: ours acts first and can say why."""
AUTOSCALER_RESOURCES = {"cpu": "500m", "memory": "512Mi"}


@dataclass(frozen=True)
class RenderInput:
    """All that a RayJob depends on."""

    spec: TrainSweepSpec
    """Resolved: class defaults and inline defaults filled in."""
    sweep_class: TrainSweepClassSpec | None
    namespace: str
    name: str
    uid: str
    run: str
    attempt: int
    kuberay: KubeRay = field(default_factory=KubeRay)
    limits: Limits = field(default_factory=Limits)
    """What the driver keeps itself."""
    active_deadline_seconds: int | None = None
    """KubeRay's backstop: later than ours."""


def rayjob_name(name: str, uid: str, attempt: int) -> str:
    """`<sweep>-<hash5>-a<n>`, at most 47 characters for a sweep's name of at most 36."""
    return f"{name}-{hashlib.sha256(uid.encode()).hexdigest()[:5]}-a{attempt}"


def hold_name(rayjob: str) -> str:
    """Name of the hold that keeps a RayJob through a foreground delete of its sweep."""
    return f"{rayjob}-hold"


def owner_references(sweep_name: str, sweep_uid: str, hold_name: str, hold_uid: str) -> list[dict[str, Any]]:
    """The two owners of a RayJob. The second keeps it when the garbage collector takes the first away."""
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "TrainSweep",
            "name": sweep_name,
            "uid": sweep_uid,
            "controller": True,
            "blockOwnerDeletion": True,
        },
        {"apiVersion": API_VERSION, "kind": "TrainSweepHold", "name": hold_name, "uid": hold_uid},
    ]


def render_plan(inp: RenderInput) -> Plan:
    """The plan under the class's ceilings: what `render` renders."""
    return plan(inp.spec, gpu_limit=inp.sweep_class.limits.gpus if inp.sweep_class else None)


def sweep_file(inp: RenderInput, max_concurrent: int) -> SweepFile:
    """What the driver runs.

    `max_concurrent` is what the pods can hold: a trial beyond it would wait for workers that cannot come, and its
    start-up time-outs would count as failures.
    """
    spec, export = inp.spec, inp.spec.checkpoints.export
    if max_concurrent != spec.trials.max_concurrent:
        spec = spec.model_copy(update={"trials": spec.trials.model_copy(update={"max_concurrent": max_concurrent})})
    return SweepFile(
        sweep=SweepRef(namespace=inp.namespace, name=inp.name, uid=inp.uid, run=inp.run),
        attempt=inp.attempt,
        attempt_id=attempt_id(inp.attempt, inp.uid),
        store=StoreRef(
            uri=run_location(spec.storage.uri, inp.namespace, inp.name, inp.run).uri,
            region=spec.storage.region or None,
            endpoint_url=spec.storage.endpoint_url or None,
        ),
        # A suspension is between the operator and the API: no driver starts under one.
        spec=spec.model_dump(mode="json", by_alias=True, exclude={"suspend"}),
        deadline_at=inp.limits.deadline_at,
        limits=inp.limits,
        export_uri=run_location(export.uri, inp.namespace, inp.name, inp.run).uri if export else None,
        trial_resource=TRIAL_RESOURCE,
    )


def _overlaid(
    template: dict[str, Any], written: dict[str, Any], of_class: dict[str, Any], container: str
) -> dict[str, Any]:
    """Class last: what a platform team sets cannot be undone by a sweep."""
    return merge(merge(template, for_pod(harden(written), container)), for_pod(of_class, container))


def _head_group(inp: RenderInput, planned: Plan) -> dict[str, Any]:
    annotations = dict(STAY) if inp.spec.scheduling.protect_from_disruption else {}
    annotations[labels.SWEEP] = sweep_file(inp, planned.max_concurrent).to_json().decode()
    control = Control(attempt_id=attempt_id(inp.attempt, inp.uid), limits=inp.limits)
    annotations[labels.CONTROL] = control.to_json().decode()
    metadata = {"labels": labels.identity(inp.name, inp.uid, inp.attempt), "annotations": annotations}
    template = head_template(inp.spec, inp.sweep_class, planned.head, metadata)
    of_class = inp.sweep_class.pod_overlay.head if inp.sweep_class else {}
    return {
        # Zero CPUs and GPUs, so that no training lands here; one slot for each trial, so that no trial driver takes
        # a CPU that its own workers wait for.
        "resources": {"CPU": "0", "GPU": "0", TRIAL_RESOURCE: str(planned.max_concurrent)},
        "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104 - KubeRay and the probes reach it over the pod's address
        "template": _overlaid(template, inp.spec.cluster.head.pod_template, of_class, HEAD_CONTAINER),
    }


def _worker_group(inp: RenderInput, shape: Shape) -> dict[str, Any]:
    annotations = dict(STAY) if inp.spec.scheduling.protect_from_disruption else {}
    metadata = {"labels": labels.identity(inp.name, inp.uid, inp.attempt), "annotations": annotations}
    template = worker_template(inp.spec, inp.sweep_class, shape, metadata)
    written = shape.group.pod_template if shape.group is not None else {}
    of_class = inp.sweep_class.pod_overlay.worker if inp.sweep_class else {}
    return {
        "groupName": shape.name,
        "replicas": shape.min_replicas,
        "minReplicas": shape.min_replicas,
        "maxReplicas": shape.max_replicas,
        # Explicit: Ray's autoscaler does not see every kind of GPU in the limits.
        "rayStartParams": {"num-cpus": str(shape.cpus), "num-gpus": str(shape.gpus)},
        "template": _overlaid(template, written, of_class, WORKER_CONTAINER),
    }


def _autoscaler(inp: RenderInput) -> dict[str, Any]:
    autoscaling = inp.spec.cluster.autoscaling
    out: dict[str, Any] = {
        "version": "v2",
        "idleTimeoutSeconds": autoscaling.idle_seconds if autoscaling is not None else 120,
        "resources": {"requests": dict(AUTOSCALER_RESOURCES), "limits": dict(AUTOSCALER_RESOURCES)},
        # The default of 300 s kills pods whose GPU node and image take longer to come.
        "env": [{"name": "RAY_AUTOSCALER_RECONCILE_ALLOCATE_STATUS_TIMEOUT_S", "value": str(ALLOCATE_TIMEOUT)}],
    }
    # The autoscaler runs beside the head from the same image: where a class mounts an interpreter, it needs it too.
    overlay = container_of(inp.sweep_class.pod_overlay.head, HEAD_CONTAINER) if inp.sweep_class else {}
    for key in ("env", "envFrom", "volumeMounts", "imagePullPolicy", "securityContext"):
        if key in overlay:
            out = merge(out, {key: overlay[key]})
    return out


def _cluster(inp: RenderInput, planned: Plan) -> dict[str, Any]:
    cluster: dict[str, Any] = {
        "rayVersion": inp.spec.cluster.ray_version,
        "enableInTreeAutoscaling": planned.autoscaling,
        "headGroupSpec": _head_group(inp, planned),
        "workerGroupSpecs": [_worker_group(inp, shape) for shape in planned.shapes if shape.max_replicas > 0],
    }
    if planned.autoscaling:
        cluster["autoscalerOptions"] = _autoscaler(inp)
    ray = tuple(int(part) for part in inp.spec.cluster.ray_version.split(".")[:2])
    if inp.kuberay.token_auth and ray >= TOKEN_MIN_RAY:
        cluster["authOptions"] = {"mode": "token"}
    return cluster


def render(inp: RenderInput) -> dict[str, Any]:
    """Renders the RayJob of an attempt, without owner references.

    The caller has passed `check_class`; it runs `check` on the result before it creates it.
    """
    spec, planned = inp.spec, render_plan(inp)
    if planned.refusals:
        raise ValueError("; ".join(f"{r.path}: {r.message}" for r in planned.refusals))
    metadata: dict[str, Any] = {
        "name": rayjob_name(inp.name, inp.uid, inp.attempt),
        "namespace": inp.namespace,
        "labels": labels.identity(inp.name, inp.uid, inp.attempt),
        "annotations": {},
    }
    if spec.scheduling.queue_name:
        metadata["labels"][labels.QUEUE] = spec.scheduling.queue_name
    if inp.kuberay.head_restart_annotation:
        metadata["annotations"][HEAD_RESTART] = "true"
    body: dict[str, Any] = {
        # HTTPMode: faithful status, no submitter pod, no shell around the entrypoint.
        "submissionMode": "HTTPMode",
        "entrypoint": ENTRYPOINT,
        # A retry is a new RayJob of ours: KubeRay's own deletes the failed cluster at once, whatever the TTL.
        "backoffLimit": 0,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": spec.cleanup.hold_seconds,
        "rayClusterSpec": _cluster(inp, planned),
    }
    if spec.training.runtime_env:
        body["runtimeEnvYAML"] = json.dumps(spec.training.runtime_env, sort_keys=True)
    if inp.active_deadline_seconds is not None:
        body["activeDeadlineSeconds"] = inp.active_deadline_seconds
    if inp.kuberay.pre_running_deadline:
        waits = spec.deadlines.startup_seconds + (spec.deadlines.queued_seconds or 0)
        body["preRunningDeadlineSeconds"] = waits + STARTUP_MARGIN
    rayjob = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": body}
    metadata["annotations"][labels.DIGEST] = spec_digest(rayjob)
    return rayjob


def spec_digest(rayjob: dict[str, Any]) -> str:
    """Digest of what was rendered, without what may change between two renderings of one attempt, and the digest itself.

    An edit of a deadline between a POST whose answer was lost and the next pass must not make the RayJob a stranger's.
    """
    metadata, body = rayjob["metadata"], dict(rayjob["spec"])
    for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds", "ttlSecondsAfterFinished", "suspend"):
        body.pop(key, None)
    cluster = dict(body["rayClusterSpec"])
    head = dict(cluster["headGroupSpec"])
    template = dict(head["template"])
    pod = dict(template["metadata"])
    annotations = {k: v for k, v in pod.get("annotations", {}).items() if k != labels.CONTROL}
    if text := annotations.get(labels.SWEEP):
        content = json.loads(text)
        for key in ("deadlineAt", "limits"):
            content.pop(key, None)
        content["spec"] = {k: v for k, v in content["spec"].items() if k not in ("deadlines", "budget", "cleanup")}
        annotations[labels.SWEEP] = json.dumps(content, sort_keys=True)
    body["rayClusterSpec"] = cluster | {
        "headGroupSpec": head | {"template": template | {"metadata": pod | {"annotations": annotations}}}
    }
    kept = {k: v for k, v in metadata.get("annotations", {}).items() if k != labels.DIGEST}
    return digest({"labels": metadata.get("labels", {}), "annotations": kept, "spec": body})


def gpus_of(rayjob: dict[str, Any]) -> int:
    """GPUs that a rendered RayJob can use at most."""
    groups = rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return sum(
        g["maxReplicas"] * quantity.gpus(g["template"]["spec"]["containers"][0]["resources"]["limits"]) for g in groups
    )
