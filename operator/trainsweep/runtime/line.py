"""The other sweeps of a class, from one list: who holds its GPUs, who waits for them, what its namespaces have used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainsweep.api.conditions import Condition
from trainsweep.core.fields import condition, items, mapping, text, whole
from trainsweep.core.model import InLine, SweepView, Unreadable
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.kube import SWEEP, Kube, KubeError
from trainsweep.runtime.resync import pages


async def others_in_line(
    kube: Kube, classes: Classes, namespaces: Sequence[str], own: SweepView, class_name: str
) -> tuple[InLine, ...] | Unreadable:
    """All other sweeps of the class in the namespaces that are served, as they stand now."""
    found = []
    try:
        async for body in pages(kube, SWEEP, namespaces):
            meta = mapping(body.get("metadata"))
            if meta.get("uid") != own.uid and await classes.name_of(body) == class_name:
                found.append(in_line(body))
    except KubeError as error:
        return Unreadable(error.message or type(error).__name__)
    return tuple(found)


def in_line(body: Mapping[str, Any]) -> InLine:
    """A sweep as others see it."""
    meta, spec, status = (mapping(body.get(k)) for k in ("metadata", "spec", "status"))
    namespace, line = text(meta.get("namespace"), 63), mapping(status.get("line"))
    attempts = items(status.get("attempts"))
    live = bool(attempts) and attempts[-1].get("goneAt") is None
    holds = line.get("holds") is True
    over = _is(body, Condition.FINISHED, "True") or (holds and _is(body, Condition.SUSPENDED, "True"))
    counted = live or (holds and not over)
    waits = not counted and not over and meta.get("deletionTimestamp") is None and spec.get("suspend") is not True
    admitted = mapping(condition(body, Condition.ADMITTED))
    refused = admitted.get("status") == "False" and admitted.get("observedGeneration") == meta.get("generation")
    stalled = mapping(condition(body, Condition.STALLED)).get("reason") == "InternalError"
    waits = waits and not refused and not stalled
    ticket = whole(line.get("ticket")) or 0
    placed = waits and ticket > 0 and admitted.get("status") == "True"
    return InLine(
        name=f"{namespace}/{text(meta.get('name'), 253)}",
        namespace=namespace,
        uid=text(meta.get("uid"), 64),
        # Also of those who wait no longer: the next one drawn is higher.
        ticket=ticket,
        gpus=whole(line.get("gpus")) or 0,
        waits=placed,
        holds=counted,
        undecided=(waits and not placed) or (live and not line and not stalled),
        gpu_seconds=whole(mapping(status.get("usage")).get("gpuSeconds")) or 0,
    )


def _is(body: Mapping[str, Any], kind: str, status: str) -> bool:
    return mapping(condition(body, kind)).get("status") == status
