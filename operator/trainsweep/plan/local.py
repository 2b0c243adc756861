"""A sweep on one machine: how many trials fit at a time, before Ray and torch are even imported."""

from __future__ import annotations

from dataclasses import dataclass

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.plan import quantity
from trainsweep.plan.shapes import Refusal, head_memory


@dataclass(frozen=True)
class Machine:
    """What one machine gives to a run."""

    cpus: int
    memory: int
    """Bytes that are free, as far as the system says; 0 where it does not."""


@dataclass(frozen=True)
class LocalPlan:
    """With refusals it cannot run here as written."""

    max_concurrent: int
    """Trials at a time: maxConcurrent, or fewer where this machine holds fewer."""
    cpus_per_trial: int
    memory: int
    """Bytes that so many trials are expected to take; without what workers take that declare no memory."""
    notes: tuple[str, ...]
    refusals: tuple[Refusal, ...]


def _gib(amount: int) -> str:
    return f"{amount / 2**30:.1f} GiB"


def local_plan(spec: TrainSweepSpec, machine: Machine) -> LocalPlan:
    """Plans a sweep for one machine.

    Args:
        spec: the resolved spec.
        machine: what it gives.
    """
    resources, count = spec.training.workers.resources, spec.training.workers.fewest
    wanted, notes, refusals = spec.trials.max_concurrent, [], []
    try:
        cpus = count * max(0, quantity.cpus({"cpu": "1", **{k: str(v) for k, v in resources.items()}}))
        declared = int(quantity.parse(resources["memory"])) * count if "memory" in resources else 0
    except quantity.QuantityError as error:
        return LocalPlan(1, 0, 0, (), (Refusal("spec.training.workers.resources", str(error)),))
    if cpus > machine.cpus:
        refusals.append(
            Refusal(
                "spec.training.workers",
                f"one trial takes {cpus} CPUs, this machine has {machine.cpus}: lower count or resources.cpu",
            )
        )
    fits = machine.cpus // cpus if cpus else wanted
    at_once = max(1, min(wanted, fits))
    if at_once < wanted:
        notes.append(
            f"spec.trials.maxConcurrent is {wanted}; {machine.cpus} CPUs hold {at_once} trial(s) of {cpus} CPU(s) at a time"
        )
    by_memory = at_once
    while machine.memory and by_memory > 1 and head_memory(by_memory) + by_memory * declared > machine.memory:
        by_memory -= 1
    if by_memory < at_once:
        notes.append(
            f"{_gib(machine.memory)} of memory are free: {by_memory} instead of {at_once} trial(s) at a time, as each takes "
            f"about {_gib(head_memory(1) - head_memory(0) + declared)}"
        )
    need = head_memory(by_memory) + by_memory * declared
    if machine.memory and declared > machine.memory:
        refusals.append(
            Refusal(
                "spec.training.workers.resources.memory",
                f"one trial takes {_gib(declared)}, {_gib(machine.memory)} are free here: lower count or memory",
            )
        )
    elif machine.memory and need > machine.memory:
        notes.append(f"about {_gib(need)} of memory are needed, {_gib(machine.memory)} are free: it may get tight")
    return LocalPlan(by_memory, cpus, need, tuple(notes), tuple(refusals))
