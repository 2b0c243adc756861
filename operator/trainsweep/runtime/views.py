"""From dicts of the API server to the views that decide() reads. Odd input never raises: it reads as absent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from trainsweep.api.status import TrainSweepStatus
from trainsweep.api.sweepclass import DEFAULT_CLASS_ANNOTATION, TrainSweepClassSpec
from trainsweep.contract import labels
from trainsweep.contract.documents import last_word
from trainsweep.core.fields import items as items
from trainsweep.core.fields import mapping as mapping
from trainsweep.core.fields import seconds as seconds
from trainsweep.core.fields import strings as strings
from trainsweep.core.fields import text as text
from trainsweep.core.fields import whole as whole
from trainsweep.core.model import ClassView, ClusterView, HoldView, RayJobView, SweepView
from trainsweep.runtime.kube import HOLD, RAY_JOB

_log = logging.getLogger(__name__)
_TEXT = 2048


def _without(data: Any, path: Sequence[int | str]) -> Any:
    """A copy of nested maps and lists without the value at the path, or unchanged where there is none."""
    if not path:
        return data
    head, rest = path[0], path[1:]
    if isinstance(data, Mapping) and head in data:
        copy = dict(data)
        if rest:
            copy[str(head)] = _without(copy[str(head)], rest)
        else:
            del copy[str(head)]
        return copy
    if isinstance(data, list) and isinstance(head, int) and head < len(data):
        return [*data[:head], *([_without(data[head], rest)] if rest else []), *data[head + 1 :]]
    return data


def read_status(raw: Any) -> TrainSweepStatus:
    """A sweep's status. What does not fit is dropped at the leaf, the rest is kept.

    It may be hand-edited or of a newer version: a bad neighbour field must never reset attempts or retries used up.
    """
    data: Any = dict(mapping(raw))
    for _ in range(16):
        try:
            return TrainSweepStatus.model_validate(data)
        except ValidationError as error:
            before = data
            found = error.errors(include_url=False)
            _log.warning("status: dropped what does not fit: %s", [item["loc"] for item in found][:8])
            # From the end, so that an index still means the element that it meant.
            for item in sorted(found, key=lambda i: str(i["loc"]), reverse=True):
                where = item["loc"][:-1] if item["type"] == "missing" else item["loc"]
                data = _without(data, where)
            if data == before:
                data = {k: v for k, v in data.items() if k not in {str(i["loc"][0]) for i in found}}
    return TrainSweepStatus()


def sweep_view(body: Mapping[str, Any]) -> SweepView:
    """A TrainSweep. `spec` stays as it is stored: decide() says what is wrong with it."""
    meta = mapping(body.get("metadata"))
    return SweepView(
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        generation=whole(meta.get("generation")) or 0,
        resource_version=text(meta.get("resourceVersion")),
        spec=mapping(body.get("spec")),
        status=read_status(body.get("status")),
        annotations=strings(meta.get("annotations")),
        finalizers=tuple(f for f in meta.get("finalizers") or () if isinstance(f, str)),
        deletion_requested_at=seconds(meta.get("deletionTimestamp")),
    )


def is_default_class(body: Mapping[str, Any]) -> bool:
    """Whether a TrainSweepClass is marked as the default."""
    annotations = strings(mapping(body.get("metadata")).get("annotations"))
    return annotations.get(DEFAULT_CLASS_ANNOTATION) == "true"


def class_view(body: Mapping[str, Any]) -> tuple[ClassView | None, str]:
    """A TrainSweepClass, or why it cannot be used."""
    meta = mapping(body.get("metadata"))
    name = text(meta.get("name"))
    try:
        spec = TrainSweepClassSpec.model_validate(mapping(body.get("spec")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(p) for p in first["loc"])
        return (
            None,
            f"TrainSweepClass {name} is invalid at spec.{where}: {first['msg']}; ask the platform team to correct it",
        )
    return ClassView(name, text(meta.get("uid")), whole(meta.get("generation")) or 0, spec), ""


def _tail(message: Any) -> str:
    """A RayJob's message: of a failed job it begins with a fixed sentence and ends with the log, whose end matters."""
    whole_text = message if isinstance(message, str) else ""
    if len(whole_text) <= _TEXT:
        return whole_text
    return f"{whole_text[:120]} ... {whole_text[-(_TEXT - 125) :]}"


def ray_job_view(body: Mapping[str, Any]) -> RayJobView:
    """A RayJob."""
    meta, spec, status = (mapping(body.get(k)) for k in ("metadata", "spec", "status"))
    marks = strings(meta.get("labels"))
    owners = items(meta.get("ownerReferences"))
    return RayJobView(
        name=text(meta.get("name")),
        uid=text(meta.get("uid")),
        sweep_uid=marks.get(labels.SWEEP_UID, ""),
        digest=strings(meta.get("annotations")).get(labels.DIGEST, ""),
        deployment_status=text(status.get("jobDeploymentStatus"), 128),
        job_status=text(status.get("jobStatus"), 128),
        reason=text(status.get("reason"), 256),
        message=_tail(status.get("message")),
        last_word=last_word(status["message"]) if isinstance(status.get("message"), str) else None,
        cluster=text(status.get("rayClusterName"), 253),
        ended_at=seconds(status.get("endTime")),
        ttl_seconds=whole(spec.get("ttlSecondsAfterFinished")) or 0,
        active_deadline_seconds=whole(spec.get("activeDeadlineSeconds")),
        started_at=seconds(status.get("startTime")),
        suspended=spec.get("suspend") is True,
        deleting=meta.get("deletionTimestamp") is not None,
        has_hold_owner=any(o.get("kind") == HOLD.kind for o in owners),
    )


def _condition(conditions: Any, kind: str) -> Mapping[str, Any] | None:
    return next((c for c in items(conditions) if c.get("type") == kind), None)


def cluster_view(body: Mapping[str, Any]) -> ClusterView:
    """A RayCluster."""
    meta, status = mapping(body.get("metadata")), mapping(body.get("status"))
    conditions = status.get("conditions")
    head = _condition(conditions, "HeadPodReady")
    failure = mapping(_condition(conditions, "ReplicaFailure"))
    ready = {"True": True, "False": False}.get(text(head.get("status"))) if head else None
    return ClusterView(
        name=text(meta.get("name")),
        state=text(status.get("state"), 64),
        head_ready=ready,
        head_reason=text(mapping(head).get("reason"), 256),
        head_message=text(mapping(head).get("message")),
        provisioned=mapping(_condition(conditions, "RayClusterProvisioned")).get("status") == "True",
        replica_failure=(text(failure.get("message")) or text(failure.get("reason")))
        if failure.get("status") == "True"
        else "",
        deleting=meta.get("deletionTimestamp") is not None,
        uid=text(meta.get("uid"), 64),
        orphan=is_orphan(body),
    )


def is_orphan(body: Mapping[str, Any]) -> bool:
    """Whether no RayJob owns a RayCluster. KubeRay makes it with its owner; only the garbage collector takes that away."""
    meta = mapping(body.get("metadata"))
    owned = any(o.get("kind") == RAY_JOB.kind for o in items(meta.get("ownerReferences")))
    return not owned and meta.get("deletionTimestamp") is None


def hold_view(body: Mapping[str, Any]) -> HoldView:
    """A TrainSweepHold."""
    meta = mapping(body.get("metadata"))
    return HoldView(text(meta.get("name")), text(meta.get("uid")))
