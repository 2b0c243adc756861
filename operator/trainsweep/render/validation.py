"""`check()`: every validation that KubeRay and Kueue make of a RayJob, made before each create and patch.

An invalid RayJob is a one-way door: KubeRay overwrites its state with ValidationFailed, keeps the pods and no longer
cleans up. Sources: kuberay utils/validation.go (1.5-1.7), Kueue's RayJob webhook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainsweep.contract import labels

MAX_NAME = 47
KUEUE_POD_SETS = 8
"""Kueue up to 0.17; 0.18 has 10, 0.19 has 18."""
MAX_SWEEP_FILE = 200 * 1024
MAX_ANNOTATIONS = 256 * 1024
TOKEN_MIN_RAY = (2, 52, 0)
ELASTIC = "kueue.x-k8s.io/elastic-job"

_DNS1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LABEL_KEY = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$")
_SHELL = set("&|;<>`$(){}\\\"'\n*?[]#~!")
_START_RESOURCES = ("num-cpus", "num-gpus", "memory", "resources")


def check(rayjob: Mapping[str, Any], *, kueue: bool) -> list[str]:
    """All that KubeRay (and Kueue, when `kueue`) would refuse, each with its path; empty means valid."""
    metadata, spec = rayjob.get("metadata", {}), rayjob.get("spec", {})
    out = _name(metadata.get("name", "")) + _labels("metadata.labels", metadata.get("labels") or {})
    out += _job(spec)
    cluster = spec.get("rayClusterSpec")
    if isinstance(cluster, Mapping):
        out += [f"spec.rayClusterSpec.{p}" for p in _cluster(cluster, metadata.get("annotations") or {})]
    if kueue:
        out += _kueue(metadata, spec)
    return out


def _name(name: str) -> list[str]:
    if len(name) > MAX_NAME:
        return [
            f"metadata.name has {len(name)} characters, KubeRay allows {MAX_NAME}: give the sweep a name of at most 36"
        ]
    if not _DNS1035.match(name):
        return [f"metadata.name {name!r}: the sweep's name must start with a letter and hold only a-z, 0-9 and '-'"]
    return []


def _labels(path: str, found: Mapping[str, str]) -> list[str]:
    out = []
    for key, value in found.items():
        if not _LABEL_KEY.match(key) or len(key.rpartition("/")[2]) > 63:
            out.append(f"{path}: {key!r} is no valid label key")
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.match(value):
            out.append(f"{path}.{key}: {value!r} is no valid label value")
    return out


def _job(spec: Mapping[str, Any]) -> list[str]:
    out = []
    shutdown = spec.get("shutdownAfterJobFinishes", False)
    ttl = spec.get("ttlSecondsAfterFinished", 0)
    selector = spec.get("clusterSelector")
    mode = spec.get("submissionMode", "K8sJobMode")
    if mode not in ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"):
        out.append(f"spec.submissionMode {mode!r} is unknown: KubeRay would never submit the job")
    if spec.get("suspend") and not shutdown:
        out.append("spec.suspend needs shutdownAfterJobFinishes")
    if ttl < 0:
        out.append("spec.ttlSecondsAfterFinished must not be negative")
    if ttl > 0 and not shutdown:
        out.append("spec.ttlSecondsAfterFinished needs shutdownAfterJobFinishes")
    if spec.get("deletionStrategy") is not None:
        out.append("spec.deletionStrategy goes neither with shutdownAfterJobFinishes nor with Kueue")
    if not selector and not isinstance(spec.get("rayClusterSpec"), Mapping):
        out.append("spec.rayClusterSpec must be set")
    if selector:
        out.append("spec.clusterSelector: an attempt needs a cluster of its own")
    backoff = spec.get("backoffLimit", 0)
    if backoff < 0:
        out.append("spec.backoffLimit must not be negative")
    elif backoff > 0:
        out.append(
            "spec.backoffLimit must be 0: KubeRay's own retry deletes the cluster before its checkpoints are proven"
        )
    out += [
        f"spec.{key} must be a positive integer"
        for key in ("activeDeadlineSeconds", "preRunningDeadlineSeconds")
        if key in spec and not (isinstance(spec[key], int) and spec[key] > 0)
    ]
    if _SHELL & set(spec.get("entrypoint", "")):
        out.append("spec.entrypoint must hold no shell syntax")
    return out


def _version(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split("."))
    except ValueError:
        return ()


def _containers(group: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = group.get("template", {}).get("spec", {}).get("containers") or []
    return [c for c in found if isinstance(c, dict)]


def _env_names(container: Mapping[str, Any]) -> set[str]:
    return {e.get("name", "") for e in container.get("env") or []}


def _group(where: str, group: Mapping[str, Any]) -> list[str]:
    out = []
    params, resources = group.get("rayStartParams") or {}, group.get("resources") or {}
    if not _containers(group):
        return [f"{where}: must have a container"]
    if resources and any(params.get(p) for p in _START_RESOURCES):
        out.append(f"{where}: resources and rayStartParams must not both name resources")
    if "labels" in params:
        out.append(f"{where}.rayStartParams: labels is refused, use the group's labels")
    out += [f"{where}.rayStartParams.{k}: must be a string" for k, v in params.items() if not isinstance(v, str)]
    out += [f"{where}.resources.{k}: must be a string" for k, v in resources.items() if not isinstance(v, str)]
    out += _labels(f"{where}.labels", group.get("labels") or {})
    out += _labels(f"{where}.template.metadata.labels", group["template"].get("metadata", {}).get("labels") or {})
    return out + _pod(f"{where}.template", group["template"])


def _pod(where: str, template: Mapping[str, Any]) -> list[str]:
    """What the API server would refuse only when the pod is made, when the cluster waits for ever."""
    out, spec = [], template["spec"]
    annotations = template.get("metadata", {}).get("annotations") or {}
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in annotations.items()) > MAX_ANNOTATIONS:
        out.append(f"{where}.metadata.annotations: more than 256 KiB")
    if len(annotations.get(labels.SWEEP, "").encode()) > MAX_SWEEP_FILE:
        out.append(f"{where}.metadata.annotations: the sweep file has more than 200 KiB: make training.config smaller")
    volumes = [v.get("name") for v in spec.get("volumes") or []]
    out += [
        f"{where}.spec.volumes: {name!r} is there twice"
        for name in sorted({v for v in volumes if volumes.count(v) > 1})
    ]
    names = [c.get("name") for c in spec["containers"]]
    out += [
        f"{where}.spec.containers: {name!r} is there twice" for name in sorted({n for n in names if names.count(n) > 1})
    ]
    for container in spec["containers"]:
        at = f"{where}.spec.containers[{container.get('name')}]"
        if not container.get("image"):
            out.append(f"{at}.image: is empty: set training.image, or the class's default")
        mounts = [m.get("mountPath") for m in container.get("volumeMounts") or []]
        out += [f"{at}.volumeMounts: {p!r} is there twice" for p in sorted({m for m in mounts if mounts.count(m) > 1})]
        out += [
            f"{at}.volumeMounts: no volume {m.get('name')!r}"
            for m in container.get("volumeMounts") or []
            if m.get("name") not in volumes
        ]
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            if name not in requests or name not in limits:
                out.append(f"{at}.resources: needs a request and a limit for {name}, or a quota refuses the pod")
        out += [
            f"{at}.resources.{n}: request and limit must be equal"
            for n in sorted(set(requests) | set(limits))
            if "/" in n and requests.get(n) != limits.get(n)
        ]
    return out


def _cluster(cluster: Mapping[str, Any], job_annotations: Mapping[str, str]) -> list[str]:
    head, groups = cluster.get("headGroupSpec") or {}, cluster.get("workerGroupSpecs") or []
    scaling = bool(cluster.get("enableInTreeAutoscaling"))
    out = _group("headGroupSpec", head)
    names = [g.get("groupName", "") for g in groups]
    out += [f"workerGroupSpecs: group {n!r} is there twice" for n in sorted({n for n in names if names.count(n) > 1})]
    for group in groups:
        where = f"workerGroupSpecs[{group.get('groupName')}]"
        out += _group(where, group) + _replicas(where, group, scaling)
    if not _containers(head):
        return out
    env, params = _env_names(_containers(head)[0]), head.get("rayStartParams") or {}
    if "RAY_REDIS_ADDRESS" in env:
        out.append("headGroupSpec: env RAY_REDIS_ADDRESS is refused")
    if "REDIS_USERNAME" in env or params.get("redis-username"):
        out.append("headGroupSpec: a redis user name is refused")
    if cluster.get("gcsFaultToleranceOptions") is not None or job_annotations.get("ray.io/ft-enabled"):
        out.append("gcsFaultToleranceOptions: not supported, an attempt restores from S3")
    if cluster.get("upgradeStrategy") is not None:
        out.append("upgradeStrategy is refused on a RayJob's cluster")
    return out + _autoscaling(cluster, env, scaling) + _auth(cluster)


def _replicas(where: str, group: Mapping[str, Any], scaling: bool) -> list[str]:
    low, high, out = group.get("minReplicas"), group.get("maxReplicas"), []
    if high is None or (low is None and not scaling):
        out.append(f"{where}: needs minReplicas and maxReplicas")
    if low is not None and low < 0:
        out.append(f"{where}: minReplicas is negative")
    if high is not None and high < 0:
        out.append(f"{where}: maxReplicas is negative")
    if low is not None and high is not None and low > high:
        out.append(f"{where}: minReplicas {low} is greater than maxReplicas {high}")
    if group.get("suspend"):
        out.append(f"{where}: suspend is not for us")
    return out


def _autoscaling(cluster: Mapping[str, Any], head_env: set[str], scaling: bool) -> list[str]:
    out, options = [], cluster.get("autoscalerOptions") or {}
    v2 = options.get("version") == "v2"
    if "RAY_enable_autoscaler_v2" in head_env and (not scaling or options.get("version")):
        out.append("headGroupSpec: env RAY_enable_autoscaler_v2 is refused beside autoscalerOptions.version")
    groups = [("headGroupSpec", cluster.get("headGroupSpec") or {})]
    groups += [(f"workerGroupSpecs[{g.get('groupName')}]", g) for g in cluster.get("workerGroupSpecs") or []]
    for where, group in groups:
        restart = group.get("template", {}).get("spec", {}).get("restartPolicy", "")
        if restart not in ("", "Never"):
            out.append(f"{where}: restartPolicy must be Never")
        idle = group.get("idleTimeoutSeconds")
        if idle is not None and (idle < 0 or not (scaling and v2)):
            out.append(f"{where}: idleTimeoutSeconds must not be negative and needs autoscaler v2")
        if group.get("priority") is not None and not (
            scaling and v2 and _version(cluster.get("rayVersion", "")) >= (2, 56)
        ):
            out.append(f"{where}: priority needs autoscaler v2 and rayVersion 2.56")
    if scaling and not v2:
        out.append("autoscalerOptions.version must be v2")
    if options.get("idleTimeoutSeconds", 0) < 0:
        out.append("autoscalerOptions.idleTimeoutSeconds must not be negative")
    if "KUBERAY_GEN_AUTOSCALER_START_CMD" in _env_names(options):
        out.append("autoscalerOptions.env: KUBERAY_GEN_AUTOSCALER_START_CMD is refused")
    return out


def _auth(cluster: Mapping[str, Any]) -> list[str]:
    auth, out = cluster.get("authOptions") or {}, []
    version = _version(cluster.get("rayVersion", ""))
    if not version:
        out.append("rayVersion must be set, as 2.58.0")
    if auth.get("mode") == "token" and version < TOKEN_MIN_RAY:
        out.append("authOptions.mode token needs rayVersion 2.52.0 or newer")
    if auth.get("enableK8sTokenAuth"):
        out.append("authOptions.enableK8sTokenAuth is refused for a RayJob")
    return out


def _kueue(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> list[str]:
    out, cluster = [], spec.get("rayClusterSpec") or {}
    groups = cluster.get("workerGroupSpecs") or []
    if not spec.get("shutdownAfterJobFinishes"):
        out.append("spec.shutdownAfterJobFinishes must be true under Kueue")
    if any(g.get("groupName") == "head" for g in groups):
        out.append("spec.rayClusterSpec.workerGroupSpecs: no group may be named head under Kueue")
    if len(groups) + 1 > KUEUE_POD_SETS:
        out.append(
            f"cluster.workerGroups: {len(groups)} groups, Kueue admits {KUEUE_POD_SETS - 1} beside the head: use fewer"
        )
    elastic = (metadata.get("annotations") or {}).get(ELASTIC) == "true"
    if cluster.get("enableInTreeAutoscaling") and not elastic:
        out.append("spec.rayClusterSpec.enableInTreeAutoscaling: Kueue admits it only with workload slicing")
    if not (metadata.get("labels") or {}).get(labels.QUEUE):
        out.append(f"metadata.labels: {labels.QUEUE} is missing: set scheduling.queueName")
    return out
