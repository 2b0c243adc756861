"""Pods as decide() reads them: above all why one does not run, said in the pod's own words and named by layer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from trainsweep.contract import labels
from trainsweep.contract.documents import Control
from trainsweep.core.model import PodView
from trainsweep.runtime.views import items, mapping, seconds, strings, text

STUCK_SECONDS = 30.0
"""A container that is still being created after this long has its pod's Events read: a volume may be missing."""

RAY_CONTAINERS = ("ray-head", "ray-worker")
_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
                    "ImageInspectError", "SignatureValidationFailed"})  # fmt: skip
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_CRASH = frozenset({"CrashLoopBackOff"})
_CREATING = frozenset({"ContainerCreating", "PodInitializing", ""})
_MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})

Problem = tuple[str, str, str]
_NONE: Problem = ("", "", "")


def _statuses(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return items(status.get("initContainerStatuses")) + items(status.get("containerStatuses"))


def _container_problem(status: Mapping[str, Any]) -> Problem:
    for container in _statuses(status):
        state = mapping(container.get("state"))
        waiting = mapping(state.get("waiting"))
        reason, name = text(waiting.get("reason"), 128), text(container.get("name"), 64)
        words = text(waiting.get("message"))
        if reason in _IMAGE:
            image = text(container.get("image"), 512)
            return "Image", reason, f"container {name}, image {image}: {words or reason}"
        if reason in _CONFIG:
            return "Config", reason, f"container {name}: {words or reason}"
        if reason in _CRASH:
            last = mapping(mapping(container.get("lastState")).get("terminated"))
            why = text(last.get("message")) or text(last.get("reason"), 128) or words
            return "Container", reason, f"container {name} ended with code {last.get('exitCode', '?')}: {why}"
        ended = mapping(state.get("terminated"))
        if ended and ended.get("exitCode") not in (0, None):
            why = text(ended.get("message")) or text(ended.get("reason"), 128)
            return (
                "Container",
                text(ended.get("reason"), 128) or "Error",
                f"container {name} ended with code {ended.get('exitCode')}: {why}",
            )
    return _NONE


def _placement_problem(status: Mapping[str, Any]) -> Problem:
    for condition in items(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            reason = text(condition.get("reason"), 128) or "Unschedulable"
            return "Placement", reason, text(condition.get("message")) or reason
    return _NONE


def needs_events(body: Mapping[str, Any], now: float) -> bool:
    """Whether a pod is scheduled, but its containers have been in the making for too long: only Events say why."""
    meta, status = mapping(body.get("metadata")), mapping(body.get("status"))
    if status.get("phase") != "Pending" or meta.get("deletionTimestamp") is not None:
        return False
    scheduled = [
        seconds(c.get("lastTransitionTime"))
        for c in items(status.get("conditions"))
        if c.get("type") == "PodScheduled" and c.get("status") == "True"
    ]
    since = scheduled[0] if scheduled else None
    if since is None or now - since < STUCK_SECONDS:
        return False
    reasons = [text(mapping(mapping(c.get("state")).get("waiting")).get("reason"), 128) for c in _statuses(status)]
    return all(r in _CREATING for r in reasons)


def event_problem(events: Iterable[Mapping[str, Any]]) -> Problem:
    """The newest Event that says why a pod's containers cannot be created."""
    found = [e for e in events if text(e.get("reason"), 128) in _MOUNT_REASONS]

    def when(event: Mapping[str, Any]) -> float:
        times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
        return next((s for s in map(seconds, times) if s is not None), 0.0)

    if not found:
        return _NONE
    newest = max(found, key=when)
    return "Config", text(newest.get("reason"), 128), text(newest.get("message"))


def _exit_reason(status: Mapping[str, Any]) -> str:
    whole_pod = text(status.get("reason"), 128)  # Evicted, Preempting, NodeLost, Shutdown
    if whole_pod:
        return whole_pod
    for container in items(status.get("containerStatuses")):
        if container.get("name") not in RAY_CONTAINERS:
            continue
        for state in ("state", "lastState"):
            ended = mapping(mapping(container.get(state)).get("terminated"))
            if ended:
                return text(ended.get("reason"), 128) or "Error"
    return ""


def _is_head(body: Mapping[str, Any]) -> bool:
    return strings(mapping(body.get("metadata")).get("labels")).get("ray.io/node-type") == "head"


def read_control(annotation: str | None) -> Control | None:
    """The control annotation; None where it is absent or is none of ours (it is then written anew)."""
    if not annotation or len(annotation) > 65_536:
        return None
    try:
        return Control.model_validate(json.loads(annotation))
    except (ValueError, ValidationError, RecursionError):
        return None


def pod_view(body: Mapping[str, Any], events: Sequence[Mapping[str, Any]] = ()) -> PodView:
    """A pod of an attempt; `events` are its own, where they were read."""
    meta, status = mapping(body.get("metadata")), mapping(body.get("status"))
    phase = text(status.get("phase"), 32)
    problem = _NONE
    if phase not in ("Succeeded",):
        problem = _container_problem(status)
    if problem == _NONE and phase == "Pending":
        problem = _placement_problem(status)
    if problem == _NONE and events:
        problem = event_problem(events)
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in items(status.get("conditions")))
    head = _is_head(body)
    return PodView(
        name=text(meta.get("name"), 253),
        uid=text(meta.get("uid"), 64),
        head=head,
        phase=phase,
        ready=ready,
        deleting=meta.get("deletionTimestamp") is not None,
        problem_layer=problem[0],
        problem_reason=problem[1],
        problem_message=problem[2],
        exit_reason=_exit_reason(status),
        control=read_control(strings(meta.get("annotations")).get(labels.CONTROL)) if head else None,
    )
