"""The layers in order, and the lowest that is not satisfied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainsweep.api.pending import Layer
from trainsweep.core.pending import (
    class_limit,
    image,
    kuberay,
    kueue,
    node_supply,
    placement,
    quota,
    ray_demand,
    spec,
    storage,
)
from trainsweep.core.pending.situation import Answer, Finding, Situation, State, Unread

LOOKS: tuple[tuple[Layer, Callable[[Situation], Answer]], ...] = (
    (Layer.SPEC, spec.look),
    (Layer.CLASS, class_limit.look),
    (Layer.KUEUE, kueue.look),
    (Layer.QUOTA, quota.look),
    (Layer.KUBERAY, kuberay.look),
    (Layer.PLACEMENT, placement.look),
    (Layer.NODE_SUPPLY, node_supply.look),
    (Layer.IMAGE, image.look),
    (Layer.RAY_DEMAND, ray_demand.look),
    (Layer.STORAGE, storage.look),
)


@dataclass(frozen=True)
class Step:
    """One layer of the chain."""

    layer: Layer
    state: State
    finding: Finding | None = None
    note: str = ""
    """Why it cannot be read."""


def chain(seen: Situation) -> tuple[Step, ...]:
    """All layers, in the order in which a sweep passes them."""
    return tuple(_step(layer, look(seen)) for layer, look in LOOKS)


def _step(layer: Layer, answer: Answer) -> Step:
    match answer:
        case Finding():
            return Step(layer, State.WAITING, answer)
        case Unread():
            return Step(layer, State.UNREADABLE, note=answer.why)
        case None:
            return Step(layer, State.SATISFIED)


def lowest(steps: tuple[Step, ...]) -> Finding | None:
    """The lowest layer that is not satisfied.

    A pod without a node waits for the node supplier where that says something: then it is the supplier that explains.
    """
    found = {step.layer: step.finding for step in steps if step.finding is not None}
    first = next((step.finding for step in steps if step.finding is not None), None)
    if first is not None and first.layer is Layer.PLACEMENT:
        return found.get(Layer.NODE_SUPPLY, first)
    return first


def unread(steps: tuple[Step, ...]) -> list[str]:
    """What could not be read, by layer."""
    return [f"{step.layer} is not readable ({step.note})" for step in steps if step.state is State.UNREADABLE]
