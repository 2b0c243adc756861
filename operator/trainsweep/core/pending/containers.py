"""A pod's own words on why its containers do not run, in the kubelet's terms: (kind, kubelet's reason, message)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainsweep.core.fields import event_time, items, mapping, text

IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
                   "ImageInspectError", "SignatureValidationFailed"})  # fmt: skip
CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
CRASH = frozenset({"CrashLoopBackOff"})
CREATING = frozenset({"ContainerCreating", "PodInitializing", ""})
MOUNT_REASONS = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
REJECTIONS = ("Evicted", "UnexpectedAdmissionError", "OutOf", "NodeLost", "Preempting", "NodeAffinity", "Terminated")

Problem = tuple[str, str, str]
NONE: Problem = ("", "", "")


def statuses(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Statuses of all containers of a pod's status, those of the init containers first."""
    return items(status.get("initContainerStatuses")) + items(status.get("containerStatuses"))


def container_problem(status: Mapping[str, Any]) -> Problem:
    """Image, Config or Container, where a container says why it does not run."""
    for container in statuses(status):
        state = mapping(container.get("state"))
        waiting = mapping(state.get("waiting"))
        reason, name = text(waiting.get("reason"), 128), text(container.get("name"), 64)
        words = text(waiting.get("message"))
        if reason in IMAGE:
            image = text(container.get("image"), 512)
            return "Image", reason, f"container {name}, image {image}: {words or reason}"
        if reason in CONFIG:
            return "Config", reason, f"container {name}: {words or reason}"
        if reason in CRASH:
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
    return NONE


def event_problem(events: Iterable[Mapping[str, Any]]) -> Problem:
    """The newest Event that says why a pod's containers cannot be created."""
    found = [e for e in events if text(e.get("reason"), 128) in MOUNT_REASONS]
    if not found:
        return NONE
    newest = max(found, key=event_time)
    return "Config", text(newest.get("reason"), 128), text(newest.get("message"))


def kubelet_rejection(status: Mapping[str, Any]) -> str:
    """Why a node gave a whole pod up, "" where none did."""
    reason = text(status.get("reason"), 128)
    if status.get("phase") != "Failed" or not reason.startswith(REJECTIONS):
        return ""
    return f"{reason}: {text(status.get('message'))}".rstrip(": ")
