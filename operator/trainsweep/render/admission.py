"""Admission: whether a sweep may run under its class, and whether it could run at all; before anything is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainsweep.api.conditions import Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract.layout import StorageURIError, parse_uri, within
from trainsweep.plan import quantity
from trainsweep.plan.plan import Plan, plan
from trainsweep.plan.shapes import head_memory
from trainsweep.render.merge import misshapen
from trainsweep.render.overlay import RAY_NAMES, check_overlay, images, node_keys


@dataclass(frozen=True)
class Problem:
    """Why a sweep is not admitted: the reason of the condition, the field, and what to do."""

    reason: Reason
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def check_class(
    spec: TrainSweepSpec,
    raw_spec: Mapping[str, Any],
    class_spec: TrainSweepClassSpec | None,
    namespace: str,
) -> list[Problem]:
    """Checks a sweep against its class.

    Args:
        spec: the resolved spec.
        raw_spec: what the author wrote; what comes from the class's defaults needs no permission of the class.
        class_spec: the class; None allows no storage.
        namespace: of the sweep.

    Returns:
        Every problem, empty when the sweep may run.
    """
    if wrong := _class_templates(spec, raw_spec, class_spec):
        return wrong
    planned = plan(spec, gpu_limit=class_spec.limits.gpus if class_spec else None)
    out = _refusals(planned, class_spec)
    out += check_templates(raw_spec)
    out += _head(raw_spec, planned, class_spec)
    out += _storage(spec, class_spec, namespace)
    if class_spec is not None:
        out += _limits(spec, planned, class_spec)
        out += _allowed(spec, raw_spec, class_spec) + _collisions(raw_spec, class_spec)
    if spec.budget.gpu_hours is not None and not planned.refusals and planned.max_gpus == 0:
        message = "bounds nothing: the sweep asks for no GPU; set spec.budget.cpuHours"
        out.append(Problem(Reason.INVALID_SPEC, "spec.budget.gpuHours", message))
    if not spec.training.image:
        out.append(
            Problem(Reason.INVALID_SPEC, "spec.training.image", "is empty, and the class has no default: set an image")
        )
    return out


def _class_templates(
    spec: TrainSweepSpec, written: Mapping[str, Any], class_spec: TrainSweepClassSpec | None
) -> list[Problem]:
    """Pod templates of the class may hold anything, but in a shape that can be merged."""
    if class_spec is None:
        return []
    own = {path for path, _ in _templates(written)}
    found = [(p, t) for p, t in _templates(spec.model_dump(mode="json", by_alias=True)) if p not in own]
    found += [("TrainSweepClass spec.podOverlay.head", class_spec.pod_overlay.head)]
    found += [("TrainSweepClass spec.podOverlay.worker", class_spec.pod_overlay.worker)]
    return [Problem(Reason.INVALID_SPEC, at, message) for p, t in found for at, message in misshapen(p, t)]


def _at(node: Any, *path: str) -> Any:
    for part in path:
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _refusals(planned: Plan, class_spec: TrainSweepClassSpec | None) -> list[Problem]:
    out = []
    for refusal in planned.refusals:
        cut = class_spec is not None and class_spec.limits.gpus is not None and "limits.gpus" in refusal.message
        out.append(Problem(Reason.LIMIT_EXCEEDED if cut else Reason.INVALID_SPEC, refusal.path, refusal.message))
    return out


def check_templates(written: Mapping[str, Any]) -> list[Problem]:
    """What no class can allow in the pod templates that an author wrote."""
    out = []
    for path, template in _templates(written):
        if not isinstance(template, Mapping):
            out.append(Problem(Reason.INVALID_SPEC, path, "must be an object"))
            continue
        out += [Problem(Reason.NOT_ALLOWED, at, message) for at, message in check_overlay(path, template)]
    return out


def _templates(written: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = []
    if template := _at(written, "cluster", "head", "podTemplate"):
        found.append(("spec.cluster.head.podTemplate", template))
    for i, group in enumerate(_at(written, "cluster", "workerGroups") or []):
        if template := _at(group, "podTemplate"):
            found.append((f"spec.cluster.workerGroups[{i}].podTemplate", template))
    return found


def _head(written: Mapping[str, Any], planned: Plan, class_spec: TrainSweepClassSpec | None) -> list[Problem]:
    """The lower bound of the head's memory holds for what an author wrote; a class may choose to go below it."""
    memory = _at(written, "cluster", "head", "resources", "memory")
    own = memory is not None and memory != _at(
        class_spec.defaults if class_spec else {}, "cluster", "head", "resources", "memory"
    )
    if not own:
        return []
    try:
        given = quantity.parse(memory)
    except quantity.QuantityError:
        return []  # refused by the plan, with its path
    if given >= (need := head_memory(planned.max_concurrent)):
        return []
    message = (
        f"{memory} is too little: the head needs 3 GB and 1.3 GB for each of {planned.max_concurrent} concurrent "
        f"trial(s); write {-(-need // 10**6)}M, lower trials.maxConcurrent, or leave it out"
    )
    return [Problem(Reason.INVALID_SPEC, "spec.cluster.head.resources.memory", message)]


def _storage(spec: TrainSweepSpec, class_spec: TrainSweepClassSpec | None, namespace: str) -> list[Problem]:
    storage, reason = spec.storage, Reason.STORAGE_NOT_ALLOWED
    if not storage.uri:
        return [
            Problem(
                Reason.INVALID_SPEC,
                "spec.storage.uri",
                "is empty, and the class has no default: set s3://bucket/prefix",
            )
        ]
    places = {"spec.storage.uri": storage.uri}
    if spec.checkpoints.export is not None:
        places["spec.checkpoints.export.uri"] = spec.checkpoints.export.uri
    if spec.search.warm_start is not None:
        places["spec.search.warmStart.runURI"] = spec.search.warm_start.run_uri
    if spec.training.source is not None and spec.training.source.s3 is not None:
        # Code is read with the pods' identity: only from where the class lets them read and write anyway.
        places["spec.training.source.s3.uri"] = spec.training.source.s3.uri
    prefixes = [p.replace("{namespace}", namespace) for p in class_spec.storage.allowed_prefixes] if class_spec else []
    out = []
    for path, uri in places.items():
        try:
            place = parse_uri(uri)
        except StorageURIError as error:
            words = str(error).replace("storage.uri", path.removeprefix("spec."))
            out.append(Problem(Reason.INVALID_SPEC, path, words))
            continue
        if place.scheme != "s3":
            out.append(Problem(reason, path, "must start with s3:// in a cluster"))
        if not any(within(uri, prefix) for prefix in prefixes):
            allowed = ", ".join(prefixes) if prefixes else "none"
            out.append(Problem(reason, path, f"{uri} lies below no prefix that the class allows ({allowed})"))
    endpoint = storage.endpoint_url.rstrip("/")
    own = [str(_at(class_spec.defaults, "storage", "endpointURL") or "").rstrip("/")] if class_spec else []
    endpoints = [e.rstrip("/") for e in class_spec.storage.endpoints] if class_spec else []
    if endpoint and endpoint not in endpoints + own:
        allowed = ", ".join(endpoints) if endpoints else "none"
        message = f"{storage.endpoint_url} is no endpoint of the class ({allowed}): ask the platform team to add it"
        out.append(Problem(reason, "spec.storage.endpointURL", message))
    return out


def _limits(spec: TrainSweepSpec, planned: Plan, class_spec: TrainSweepClassSpec) -> list[Problem]:
    limits, out = class_spec.limits, []
    rows: list[tuple[str, float | None, float | None]] = [
        ("spec.trials.count", planned.trials, limits.trials),
        ("spec.trials.maxConcurrent", spec.trials.max_concurrent, limits.max_concurrent),
        ("spec.deadlines.totalSeconds", spec.deadlines.total_seconds, limits.total_seconds),
        ("spec.budget.gpuHours", spec.budget.gpu_hours, limits.gpu_hours),
    ]
    for path, value, limit in rows:
        if limit is not None and value is not None and value > limit:
            message = f"{value} is more than the class allows: lower it to at most {limit}"
            out.append(Problem(Reason.LIMIT_EXCEEDED, path, message))
    return out


def _collisions(written: Mapping[str, Any], class_spec: TrainSweepClassSpec) -> list[Problem]:
    """Names that the class's overlay has too.

    It merges by name, last: a volume or sidecar of the same name would get the class's hostPath or privilege with the
    author's mount or command.
    """
    out = []
    for path, template in _templates(written):
        overlay = (
            class_spec.pod_overlay.head if path.startswith("spec.cluster.head.") else class_spec.pod_overlay.worker
        )
        for kind in ("volumes", "containers"):
            taken = {_at(item, "name") for item in _at(overlay, "spec", kind) or []} - RAY_NAMES
            if kind == "containers":
                taken |= {_at(item, "name") for item in _at(overlay, "spec", "initContainers") or []}
            found = _at(template, "spec", kind)
            for i, item in enumerate(found if isinstance(found, list) else []):
                if (name := str(_at(item, "name"))) in taken:
                    message = f"{name} is a name of the class's podOverlay: choose another name"
                    out.append(Problem(Reason.NOT_ALLOWED, f"{path}.spec.{kind}[{i}].name", message))
    return out


def _image_allowed(image: str, prefixes: list[str]) -> bool:
    """Compared up to a boundary: `reg/team` allows `reg/team/x` and `reg/team:1`, not `reg/team-x`."""
    for prefix in prefixes:
        if image.startswith(prefix) and (
            prefix.endswith(("/", ":", "@")) or image[len(prefix) :][:1] in ("", "/", ":", "@")
        ):
            return True
    return False


def _named(path: str, value: str, default: Any, allowed: list[str] | None, what: str) -> list[Problem]:
    if not value or allowed is None or value == default or value in allowed:
        return []
    names = ", ".join(allowed) if allowed else "none"
    return [Problem(Reason.NOT_ALLOWED, path, f"{what} {value} is not allowed by the class (allowed: {names})")]


def _allowed(spec: TrainSweepSpec, written: Mapping[str, Any], class_spec: TrainSweepClassSpec) -> list[Problem]:
    allowed, defaults = class_spec.allowed, class_spec.defaults
    rows = [
        (
            "spec.storage.serviceAccountName",
            spec.storage.service_account_name,
            allowed.service_accounts,
            "ServiceAccount",
        ),
        ("spec.scheduling.queueName", spec.scheduling.queue_name, allowed.queues, "queue"),
        (
            "spec.scheduling.priorityClassName",
            spec.scheduling.priority_class_name,
            allowed.priority_classes,
            "PriorityClass",
        ),
    ]
    out = []
    for path, value, names, what in rows:
        out += _named(path, value, _at(defaults, *path.split(".")[1:]), names, what)
    out += _images(spec, written, class_spec)
    keys = allowed.node_selector_keys
    if keys is None:
        return out
    selectors = [("spec.cluster.head.nodeSelector", _at(written, "cluster", "head", "nodeSelector"))]
    for i, group in enumerate(_at(written, "cluster", "workerGroups") or []):
        selectors.append((f"spec.cluster.workerGroups[{i}].nodeSelector", _at(group, "nodeSelector")))
    for path, selector in selectors:
        for key in selector or {}:
            out += _named(f"{path}.{key}", key, None, keys, "node label")
    for path, template in _templates(written):
        # An affinity chooses nodes as a selector does.
        for key in node_keys(_at(template, "spec", "affinity", "nodeAffinity")):
            out += _named(f"{path}.spec.affinity.nodeAffinity", key, None, keys, "node label")
    return out


def _images(spec: TrainSweepSpec, written: Mapping[str, Any], class_spec: TrainSweepClassSpec) -> list[Problem]:
    prefixes = class_spec.allowed.images
    if prefixes is None:
        return []
    found = [("spec.training.image", spec.training.image, _at(class_spec.defaults, "training", "image"))]
    for path, template in _templates(written):
        found += [(f"{path}.spec.containers[{i}].image", image, None) for i, image in images(template)]
    names = ", ".join(prefixes) if prefixes else "none"
    return [
        Problem(Reason.NOT_ALLOWED, path, f"image {image} is not allowed by the class (allowed prefixes: {names})")
        for path, image, default in found
        if image and image != default and not _image_allowed(image, prefixes)
    ]
