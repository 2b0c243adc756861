"""Pods as decide() reads them: above all why one does not run, said in the pod's own words and named by layer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from trainsweep.contract import labels
from trainsweep.contract.documents import Control
from trainsweep.core.fields import items, mapping, strings, text
from trainsweep.core.model import PodView
from trainsweep.core.pending.containers import NONE, Problem, container_problem, event_problem

RAY_CONTAINERS = ("ray-head", "ray-worker")


def _placement_problem(status: Mapping[str, Any]) -> Problem:
    for condition in items(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            reason = text(condition.get("reason"), 128) or "Unschedulable"
            return "Placement", reason, text(condition.get("message")) or reason
    return NONE


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
    problem = NONE
    if phase not in ("Succeeded",):
        problem = container_problem(status)
    if problem == NONE and phase == "Pending":
        problem = _placement_problem(status)
    if problem == NONE and events:
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
