"""Strategic merge of pod templates: containers, env and volumes by name, mounts by path, the rest whole.

The order of the base list is kept, so the Ray container stays the first, as KubeRay wants it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

# Lists that merge by a key of their items, as in Kubernetes' own patch strategy.
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "resourceClaims": "name",
}
_APPENDED = frozenset({"tolerations", "envFrom", "topologySpreadConstraints"})
# A union: an overlay that gives another kind must not leave two.
_WHOLE = frozenset({"valueFrom", "emptyDir", "hostPath", "configMap", "secret", "projected", "downwardAPI"})

RAY = "ray"
"""Name by which an overlay may call the Ray container of any pod."""


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """The base with an overlay on top. Neither is changed."""
    out = copy.deepcopy(dict(base))
    for key, value in overlay.items():
        old = out.get(key)
        if key in _KEYS and isinstance(old, list) and isinstance(value, list):
            out[key] = _by_key(old, value, _KEYS[key], replace=key in ("env", "volumes"))
        elif key in _APPENDED and isinstance(old, list) and isinstance(value, list):
            out[key] = old + [copy.deepcopy(v) for v in value if v not in old]
        elif isinstance(old, dict) and isinstance(value, Mapping) and key not in _WHOLE:
            out[key] = merge(old, value)
        else:
            out[key] = copy.deepcopy(value)
    return out


def _by_key(old: list[Any], new: list[Any], key: str, *, replace: bool) -> list[Any]:
    out = list(old)
    places = {item.get(key): i for i, item in enumerate(out) if isinstance(item, dict)}
    for item in new:
        name = item.get(key) if isinstance(item, Mapping) else None
        if name is not None and name in places:
            place = places[name]
            out[place] = copy.deepcopy(dict(item)) if replace else merge(out[place], item)
        else:
            if name is not None:
                places[name] = len(out)
            out.append(copy.deepcopy(item))
    return out


def for_pod(overlay: Mapping[str, Any], ray_container: str) -> dict[str, Any]:
    """An overlay with the Ray container's own name where it says `ray`."""
    out = copy.deepcopy(dict(overlay))
    spec = out.get("spec")
    for container in spec.get("containers") or [] if isinstance(spec, dict) else []:
        if isinstance(container, dict) and container.get("name") == RAY:
            container["name"] = ray_container
    return out


def container_of(overlay: Mapping[str, Any], ray_container: str) -> dict[str, Any]:
    """What an overlay says about the Ray container; empty when nothing."""
    spec = overlay.get("spec")
    for container in spec.get("containers") or [] if isinstance(spec, Mapping) else []:
        if isinstance(container, dict) and container.get("name") in (RAY, ray_container):
            return container
    return {}


def misshapen(path: str, template: Any) -> list[tuple[str, str]]:
    """What of a class's pod template has a shape that cannot be merged, as (path, message) pairs."""
    if not isinstance(template, Mapping):
        return [(path, "must be an object")]
    out = []
    for part in ("metadata", "spec"):
        if not isinstance(template.get(part, {}), Mapping):
            return [(f"{path}.{part}", "must be an object")]
    for part in ("labels", "annotations"):
        found = template.get("metadata", {}).get(part, {})
        if not isinstance(found, Mapping) or not all(isinstance(v, str) for v in found.values()):
            out.append((f"{path}.metadata.{part}", "must be a map of strings"))
    for key in ("containers", "initContainers", "volumes"):
        problems = _named_list(f"{path}.spec.{key}", template.get("spec", {}).get(key, []), "name")
        out += problems
        if problems or key == "volumes":
            continue
        for i, container in enumerate(template.get("spec", {}).get(key, [])):
            for inner, name in (("env", "name"), ("volumeMounts", "mountPath")):
                out += _named_list(f"{path}.spec.{key}[{i}].{inner}", container.get(inner, []), name)
    return out


def _named_list(path: str, found: Any, key: str) -> list[tuple[str, str]]:
    if not isinstance(found, list) or not all(isinstance(i, Mapping) and isinstance(i.get(key), str) for i in found):
        return [(path, f"must be a list of objects, each with a {key}")]
    return []
