"""Pods as decide() reads them: above all why one does not run, said in the pod's own words and named by layer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from pydantic import ValidationError

from trainsweep.contract import labels
from trainsweep.contract.documents import Control
from trainsweep.core.fields import items, mapping, seconds, strings, text
from trainsweep.core.model import PodView
from trainsweep.core.pending.containers import NONE, Problem, container_problem, event_problem, statuses
from trainsweep.plan import quantity

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


def _ended(status: Mapping[str, Any]) -> float | None:
    """When the last container of a pod that has ended did."""
    ends = [seconds(mapping(mapping(c.get("state")).get("terminated")).get("finishedAt")) for c in statuses(status)]
    return max((e for e in ends if e is not None), default=None)


def _requests(body: Mapping[str, Any]) -> tuple[int, int]:
    """GPUs and whole CPUs that a pod holds on its node: of its containers, init containers run before them."""
    gpus, cpus = 0, Decimal(0)
    for container in items(mapping(body.get("spec")).get("containers")):
        resources = mapping(container.get("resources"))
        asked = {**mapping(resources.get("limits")), **mapping(resources.get("requests"))}
        try:
            gpus += quantity.gpus(asked)
            cpus += quantity.parse(asked.get("cpu", 0))
        except quantity.QuantityError:
            continue  # the API server takes no such quantity
    return gpus, int(cpus.to_integral_value(ROUND_CEILING))


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
    gpus, cpus = _requests(body)
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
        gpus=gpus,
        cpus=cpus,
        started_at=seconds(status.get("startTime")),
        ended_at=_ended(status) if phase in ("Succeeded", "Failed") else None,
        exit_reason=_exit_reason(status),
        control=read_control(strings(meta.get("annotations")).get(labels.CONTROL)) if head else None,
    )
