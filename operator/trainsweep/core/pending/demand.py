"""What a sweep's trials ask of its worker groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.plan.quantity import QuantityError
from trainsweep.plan.shapes import shapes


@dataclass(frozen=True)
class Demand:
    """What a sweep's trials take when as many run as may."""

    trials: int
    """Trials that should run at the same time."""
    workers: int
    """Training workers of one trial."""
    workers_per_pod: Mapping[str, int]
    """Whole training workers that a pod holds, by worker group."""


def demand_of(spec: TrainSweepSpec) -> Demand | None:
    """The demand of a resolved spec; None where a quantity in it is none, which is refused elsewhere."""
    try:
        groups, _, _ = shapes(spec)
    except QuantityError:
        return None
    per_pod = {shape.name: shape.workers_per_pod for shape in groups}
    return Demand(spec.trials.max_concurrent, spec.training.workers.most, per_pod)
