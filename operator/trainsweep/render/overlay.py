"""What a sweep's author may put into a pod template: an allow-list, as such authors may have no right to make pods.

Everything else is refused with its path. Only a class may add hostPath, privilege and the like.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainsweep.contract import labels
from trainsweep.plan import quantity
from trainsweep.render.merge import RAY
from trainsweep.render.pods import CONTROL_VOLUME, HEAD_CONTAINER, SHM_VOLUME, SOURCE_VOLUME, WORKER_CONTAINER

Found = list[tuple[str, str]]
"""(path, message) pairs."""

MAX_BYTES = 32 * 1024
CLASS_ONLY = "only a TrainSweepClass may set it (podOverlay): remove it, or ask the platform team"

RESERVED_DOMAINS = {
    "ray.io": "KubeRay keeps it",
    "kueue.x-k8s.io": "set scheduling.queueName",
    "trainsweep.io": "TrainSweep keeps it",
    "karpenter.sh": "set scheduling.protectFromDisruption",
    "cluster-autoscaler.kubernetes.io": "set scheduling.protectFromDisruption",
    "argoproj.io": "it belongs to the tool that applied the sweep, not to its pods",
    "toolkit.fluxcd.io": "it belongs to the tool that applied the sweep, not to its pods",
    "fluxcd.io": "it belongs to the tool that applied the sweep, not to its pods",
    "helm.sh": "it belongs to the tool that applied the sweep, not to its pods",
    "kubectl.kubernetes.io": "it belongs to the tool that applied the sweep, not to its pods",
    "kopf.dev": "it belongs to an operator",
    "zalando.org": "it belongs to an operator",
    # Annotations of these give identities, networks or privileges.
    "iam.amazonaws.com": "set storage.serviceAccountName",
    "eks.amazonaws.com": "set storage.serviceAccountName",
    "apparmor.security.beta.kubernetes.io": CLASS_ONLY,
    "seccomp.security.alpha.kubernetes.io": CLASS_ONLY,
    "k8s.v1.cni.cncf.io": CLASS_ONLY,
}
RESERVED_KEYS = {"app.kubernetes.io/instance": "Argo CD tracks objects by it"}
RESERVED_VOLUMES = frozenset({CONTROL_VOLUME, SOURCE_VOLUME, SHM_VOLUME, "ray-logs", "ray-token"})
RESERVED_PATHS = (
    labels.CONTROL_DIR,
    labels.SOURCE_DIR,
    labels.PACKAGE_DIR,
    "/etc/trainsweep",
    "/dev/shm",  # noqa: S108 - a mount in a pod
    "/var/run/secrets",
)
RAY_NAMES = frozenset({RAY, HEAD_CONTAINER, WORKER_CONTAINER})
RESERVED_CONTAINERS = frozenset({"autoscaler", "wait-gcs-ready", "ray-job-submitter"})

_TEMPLATE = ("metadata", "spec")
_METADATA = ("labels", "annotations")
_POD = ("affinity", "topologySpreadConstraints", "volumes", "containers")
_VOLUME_KINDS = ("emptyDir", "persistentVolumeClaim", "secret", "configMap", "projected")
_PROJECTED = ("secret", "configMap", "downwardAPI")
_MOUNT = ("name", "mountPath", "subPath", "subPathExpr", "readOnly")
_SIDECAR = (
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "ports",
    "resources",
    "volumeMounts",
    "securityContext",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)
_SECURITY = (
    "allowPrivilegeEscalation",
    "runAsNonRoot",
    "runAsUser",
    "runAsGroup",
    "readOnlyRootFilesystem",
    "capabilities",
    "seccompProfile",
)
_SIDECAR_RESOURCES = ("cpu", "memory", "ephemeral-storage")
RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SIDECAR_DEFAULT = {"cpu": "100m", "memory": "128Mi"}


def check_overlay(path: str, overlay: Mapping[str, Any]) -> Found:
    """What of a sweep's pod template is refused, with paths below `path`."""
    if len(json.dumps(overlay, default=str)) > MAX_BYTES:
        return [(path, f"has more than {MAX_BYTES // 1024} KiB: make it smaller")]
    out = _keys(path, overlay, _TEMPLATE)
    if "metadata" in overlay:
        out += _metadata(f"{path}.metadata", overlay["metadata"])
    if "spec" in overlay:
        out += _spec(f"{path}.spec", overlay["spec"])
    return out


def _keys(path: str, found: Any, allowed: tuple[str, ...], advice: str = CLASS_ONLY) -> Found:
    if not isinstance(found, Mapping):
        return [(path, "must be an object")]
    return [(f"{path}.{key}", f"is not allowed here: {advice}") for key in found if key not in allowed]


def _objects(path: str, found: Any) -> tuple[list[tuple[str, Mapping[str, Any]]], Found]:
    """Items of a list with their paths; what is no list of objects is refused."""
    if not isinstance(found, list):
        return [], [(path, "must be a list")]
    good = [(f"{path}[{i}]", item) for i, item in enumerate(found) if isinstance(item, Mapping)]
    return good, [
        (f"{path}[{i}]", "must be an object") for i, item in enumerate(found) if not isinstance(item, Mapping)
    ]


def reserved_key(key: str) -> str:
    """What to do instead of setting this label or annotation; empty when it may be set."""
    if key in RESERVED_KEYS:
        return RESERVED_KEYS[key]
    domain = key.rpartition("/")[0].lower()
    for reserved, advice in RESERVED_DOMAINS.items():
        if domain == reserved or domain.endswith("." + reserved):
            return advice
    return ""


def _metadata(path: str, found: Any) -> Found:
    out = _keys(path, found, _METADATA)
    for kind in _METADATA:
        entries = found.get(kind, {}) if isinstance(found, Mapping) else {}
        if not isinstance(entries, Mapping):
            out.append((f"{path}.{kind}", "must be an object"))
            continue
        for key, value in entries.items():
            if advice := reserved_key(str(key)):
                out.append((f"{path}.{kind}.{key}", f"is reserved: {advice}"))
            elif not isinstance(value, str):
                out.append((f"{path}.{kind}.{key}", "must be a string: put it in quotes"))
    return out


def _spec(path: str, found: Any) -> Found:
    out = _keys(path, found, _POD)
    if not isinstance(found, Mapping):
        return out
    own: set[str] = set()
    if "affinity" in found:
        out += _keys(f"{path}.affinity", found["affinity"], ("nodeAffinity", "podAffinity", "podAntiAffinity"))
    if "topologySpreadConstraints" in found:
        out += _objects(f"{path}.topologySpreadConstraints", found["topologySpreadConstraints"])[1]
    if "volumes" in found:
        items, problems = _objects(f"{path}.volumes", found["volumes"])
        out += problems
        for at, volume in items:
            out += _volume(at, volume)
            own.add(str(volume.get("name")))
    if "containers" in found:
        items, problems = _objects(f"{path}.containers", found["containers"])
        out += problems
        for at, container in items:
            out += _container(at, container, own)
    return out


def _volume(path: str, volume: Mapping[str, Any]) -> Found:
    out = _keys(path, volume, ("name", *_VOLUME_KINDS))
    name = volume.get("name")
    if not isinstance(name, str) or not name:
        out.append((f"{path}.name", "is required"))
    elif name in RESERVED_VOLUMES or name.startswith("trainsweep-"):
        out.append((f"{path}.name", f"{name} is reserved: choose another name"))
    kinds = [k for k in _VOLUME_KINDS if k in volume]
    if len(kinds) != 1 and not out:
        out.append((path, f"set exactly one of {', '.join(_VOLUME_KINDS)}"))
    out += [(f"{path}.{k}", "must be an object") for k in kinds if not isinstance(volume[k], Mapping)]
    if isinstance(volume.get("projected"), Mapping):
        items, problems = _objects(f"{path}.projected.sources", volume["projected"].get("sources", []))
        out += problems
        for at, source in items:
            # A token with an audience of the author's choice is an identity elsewhere.
            out += _keys(at, source, _PROJECTED)
    return out


def _mounts(path: str, found: Any, own: set[str]) -> Found:
    """Only volumes of the same overlay: a class's volume may be a hostPath that the class mounts read-only."""
    items, out = _objects(path, found)
    for at, mount in items:
        out += _keys(at, mount, _MOUNT)
        name, place = mount.get("name"), mount.get("mountPath")
        if not isinstance(name, str) or name not in own:
            out.append((f"{at}.name", f"{name} is no volume of this podTemplate: add it to spec.volumes"))
        if not isinstance(place, str) or not place.startswith("/") or ".." in place.split("/"):
            out.append((f"{at}.mountPath", "must be an absolute path without '..'"))
            continue
        normal = "/" + "/".join(part for part in place.split("/") if part not in ("", "."))
        if normal == "/" or any(
            normal == p or normal.startswith(p + "/") or p.startswith(normal + "/") for p in RESERVED_PATHS
        ):
            out.append((f"{at}.mountPath", f"{place} would hide what TrainSweep mounts: choose another path"))
    return out


def _container(path: str, container: Mapping[str, Any], own: set[str]) -> Found:
    name = container.get("name")
    if not isinstance(name, str) or not name:
        return [(f"{path}.name", f"is required: {RAY} for the Ray container, any other for a sidecar")]
    if name in RAY_NAMES:
        advice = "in the Ray container only volumeMounts can be added: use training.env, training.image and resources"
        out = _keys(path, container, ("name", "volumeMounts"), advice)
        return out + (
            _mounts(f"{path}.volumeMounts", container["volumeMounts"], own) if "volumeMounts" in container else []
        )
    if name in RESERVED_CONTAINERS:
        return [(f"{path}.name", f"{name} is KubeRay's: choose another name")]
    return _sidecar(path, container, own)


def _sidecar(path: str, container: Mapping[str, Any], own: set[str]) -> Found:
    out = _keys(path, container, _SIDECAR)
    if not isinstance(container.get("image"), str) or not container["image"]:
        out.append((f"{path}.image", "is required for a sidecar"))
    if "volumeMounts" in container:
        out += _mounts(f"{path}.volumeMounts", container["volumeMounts"], own)
    if "ports" in container:
        items, problems = _objects(f"{path}.ports", container["ports"])
        out += problems
        for at, port in items:
            out += _keys(at, port, ("name", "containerPort", "protocol"))
    if "securityContext" in container:
        out += _security(f"{path}.securityContext", container["securityContext"])
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container and not isinstance(container[probe], Mapping):
            out.append((f"{path}.{probe}", "must be an object"))
        elif probe in container:
            for kind in ("httpGet", "tcpSocket"):
                # The kubelet makes the call: with a host of its own it would reach where the pod cannot.
                if isinstance(container[probe].get(kind), Mapping) and "host" in container[probe][kind]:
                    out.append((f"{path}.{probe}.{kind}.host", f"is not allowed here: {CLASS_ONLY}"))
    for key in ("env", "envFrom"):
        if key in container:
            out += _objects(f"{path}.{key}", container[key])[1]
    if "resources" in container:
        out += _sidecar_resources(f"{path}.resources", container["resources"])
    return out


def _security(path: str, found: Any) -> Found:
    out = _keys(path, found, _SECURITY)
    if not isinstance(found, Mapping):
        return out
    if found.get("allowPrivilegeEscalation", False) is not False:
        out.append((f"{path}.allowPrivilegeEscalation", "must be false"))
    if found.get("runAsNonRoot", True) is not True:
        out.append((f"{path}.runAsNonRoot", "must be true"))
    if found.get("runAsUser", 1) == 0:
        out.append((f"{path}.runAsUser", "must not be 0"))
    capabilities = found.get("capabilities", {})
    if not isinstance(capabilities, Mapping):
        out.append((f"{path}.capabilities", "must be an object"))
    elif capabilities.get("add") or (capabilities.get("drop") or ["ALL"]) != ["ALL"]:
        out.append((f"{path}.capabilities", "must drop ALL and add none"))
    profile = found.get("seccompProfile", {})
    if not isinstance(profile, Mapping) or profile.get("type", "RuntimeDefault") != "RuntimeDefault":
        out.append((f"{path}.seccompProfile", "type must be RuntimeDefault"))
    return out


def _sidecar_resources(path: str, found: Any) -> Found:
    out = _keys(path, found, ("requests", "limits"))
    for kind in ("requests", "limits"):
        amounts = found.get(kind, {}) if isinstance(found, Mapping) else {}
        out += _keys(
            f"{path}.{kind}", amounts, _SIDECAR_RESOURCES, "a sidecar takes cpu, memory and ephemeral-storage only"
        )
        for name, value in amounts.items() if isinstance(amounts, Mapping) else ():
            try:
                quantity.parse(value)
            except quantity.QuantityError as error:
                out.append((f"{path}.{kind}.{name}", str(error)))
    return out


def harden(overlay: Mapping[str, Any]) -> dict[str, Any]:
    """A sweep's overlay whose sidecars run under restricted Pod Security, with requests and limits."""
    out: dict[str, Any] = json.loads(json.dumps(overlay))
    spec = out.get("spec")
    for container in spec.get("containers") or [] if isinstance(spec, dict) else []:
        if container.get("name") in RAY_NAMES:
            continue
        container["securityContext"] = RESTRICTED | (container.get("securityContext") or {})
        container["securityContext"]["capabilities"] = RESTRICTED["capabilities"]
        written = container.get("resources") or {}
        limits = SIDECAR_DEFAULT | (written.get("requests") or {}) | (written.get("limits") or {})
        container["resources"] = {"requests": limits | (written.get("requests") or {}), "limits": limits}
    return out


def images(overlay: Any) -> list[tuple[int, str]]:
    """Images of the sidecars of an overlay, with the index of their container; what has another shape is left out."""
    spec = overlay.get("spec") if isinstance(overlay, Mapping) else None
    found = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(found, list):
        return []
    return [(i, c["image"]) for i, c in enumerate(found) if isinstance(c, Mapping) and isinstance(c.get("image"), str)]


def node_keys(found: Any) -> list[str]:
    """Keys of node labels that an affinity asks for, wherever they stand in it."""
    out: list[str] = []
    if isinstance(found, Mapping):
        for name, value in found.items():
            if name in ("matchExpressions", "matchFields") and isinstance(value, list):
                out += [str(e.get("key")) for e in value if isinstance(e, Mapping)]
            else:
                out += node_keys(value)
    elif isinstance(found, list):
        for item in found:
            out += node_keys(item)
    return out
