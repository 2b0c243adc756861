"""Pods of a sweep: the head's size, the derived worker group, whole workers per pod and replicas under a ceiling.

One training worker is one bundle of a Ray placement group. Totals prove nothing: each bundle must fit into one pod, so
everything here counts whole workers per pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.workload import WorkerGroup
from trainsweep.plan import quantity

HEAD_CPUS = 2
# Measured: 1.05 GB of head processes, and per concurrent trial 7 processes with 1.03 GB proportional memory.
HEAD_BASE_BYTES = 3 * 10**9
HEAD_TRIAL_BYTES = 1_300_000_000
DERIVED_GROUP = "workers"
DERIVED_CPUS = 16
"""A derived group without GPUs packs a trial's workers into one pod up to this many CPUs."""
MEMORY_PER_CPU = 2 * 2**30
MEMORY_PER_GPU = 16 * 2**30


@dataclass(frozen=True)
class Refusal:
    """Something that can never run: where it is written and what to do."""

    path: str
    message: str


@dataclass(frozen=True)
class Shape:
    """One group of equal worker pods."""

    name: str
    path: str
    """Where the group is written in the spec."""
    resources: dict[str, str]
    """Requests and limits of one pod."""
    workers_per_pod: int
    cpus: int
    gpus: int
    min_replicas: int
    max_replicas: int
    wanted_replicas: int
    """What maxConcurrent trials need, before any ceiling."""
    group: WorkerGroup | None
    """The group as written; None when derived."""


def head_memory(max_concurrent: int) -> int:
    """Bytes of memory that the head needs for this many concurrent trials."""
    return HEAD_BASE_BYTES + HEAD_TRIAL_BYTES * max_concurrent


def head_resources(spec: TrainSweepSpec, max_concurrent: int) -> dict[str, str]:
    """Requests and limits of the head: what is written, else 2 CPUs and the memory of `head_memory`."""
    out = {name: str(value) for name, value in spec.cluster.head.resources.items()}
    out.setdefault("cpu", str(HEAD_CPUS))
    out.setdefault("memory", f"{head_memory(max_concurrent) // 10**6}M")
    return out


def with_memory(resources: Mapping[str, int | str]) -> tuple[dict[str, str], bool]:
    """Resources with memory; derived from GPUs and CPUs where none is given. Also says whether it was derived."""
    out = {name: str(value) for name, value in resources.items()}
    if "memory" in out:
        return out, False
    derived = max(quantity.gpus(out) * MEMORY_PER_GPU, max(1, quantity.cpus(out)) * MEMORY_PER_CPU)
    out["memory"] = quantity.text(derived)
    return out, True


def times(resources: Mapping[str, str], factor: int) -> dict[str, str]:
    """A resource list, this many times."""
    if factor == 1:
        return dict(resources)
    out = {}
    for name, value in resources.items():
        amount = quantity.parse(value) * factor
        out[name] = quantity.text(amount) if name in ("memory", "ephemeral-storage") else f"{amount.normalize():f}"
    return out


def workers_per_pod(pod: Mapping[str, int | str], worker: Mapping[str, int | str]) -> int:
    """How many whole training workers fit into one pod; 0 when some resource is missing or too small."""
    fits: list[Decimal] = []
    for name, need in worker.items():
        amount = quantity.parse(need)
        if amount > 0:
            fits.append(quantity.parse(pod.get(name, 0)) // amount)
    return int(min(fits)) if fits else 0


def derived_pod(worker: Mapping[str, int | str], count: int) -> tuple[dict[str, str], int, bool]:
    """Pod resources of the group that is derived when none is written.

    With GPUs one pod holds one training worker, so that the smallest GPU node serves. Without, one pod holds all
    workers of a trial up to `DERIVED_CPUS` CPUs, because every further pod costs a raylet.

    Returns:
        resources, workers in one pod, whether memory was derived.
    """
    one, memory_derived = with_memory(worker)
    per_cpu = max(1, quantity.cpus(one))
    per_pod = 1 if quantity.gpus(one) else max(1, min(count, DERIVED_CPUS // per_cpu))
    return times(one, per_pod), per_pod, memory_derived


def shapes(spec: TrainSweepSpec) -> tuple[list[Shape], list[Refusal], list[str]]:
    """Worker pods by group, before any ceiling of a class; what cannot be placed; what was derived."""
    workers = spec.training.workers
    needed = spec.trials.max_concurrent * workers.most
    found: list[Shape] = []
    refusals: list[Refusal] = []
    notes: list[str] = []
    if not any(quantity.parse(v) > 0 for v in workers.resources.values()):
        return [], [Refusal("spec.training.workers.resources", "a worker must take at least one CPU or GPU")], []
    if not spec.cluster.worker_groups:
        pod, per_pod, memory_derived = derived_pod(workers.resources, workers.most)
        wanted = -(-needed // per_pod)
        found.append(
            Shape(
                DERIVED_GROUP,
                "spec.training.workers",
                pod,
                per_pod,
                quantity.cpus(pod),
                quantity.gpus(pod),
                0,
                wanted,
                wanted,
                None,
            )
        )
        notes.append(
            f"spec.cluster.workerGroups is absent: one group of pods with {per_pod} training worker(s) each is derived"
        )
        if memory_derived:
            notes.append(f"spec.training.workers.resources names no memory: a pod gets {pod['memory']}")
        return found, refusals, notes
    for i, group in enumerate(spec.cluster.worker_groups):
        path = f"spec.cluster.workerGroups[{i}]"
        pod, memory_derived = with_memory(group.resources)
        per_pod = workers_per_pod(pod, workers.resources)
        if per_pod == 0:
            need = ", ".join(f"{k}: {v}" for k, v in workers.resources.items())
            refusals.append(
                Refusal(
                    f"{path}.resources",
                    f"a pod of group {group.name} holds no whole training worker ({need}): "
                    "make the pod larger, or training.workers.resources smaller",
                )
            )
            continue
        if memory_derived:
            notes.append(f"{path}.resources names no memory: a pod gets {pod['memory']}")
        wanted = -(-needed // per_pod)
        most = group.max_replicas if group.max_replicas is not None else max(wanted, group.min_replicas)
        found.append(
            Shape(
                group.name,
                path,
                pod,
                per_pod,
                quantity.cpus(pod),
                quantity.gpus(pod),
                group.min_replicas,
                most,
                wanted,
                group,
            )
        )
    return found, refusals, notes


def cut(found: list[Shape], gpu_limit: int | None) -> tuple[list[Shape], list[str]]:
    """Cuts maxReplicas so that all groups together stay within a ceiling of GPUs; the first group is served first."""
    if gpu_limit is None:
        return found, []
    left, out, notes = gpu_limit, [], []
    for shape in found:
        if shape.gpus == 0:
            out.append(shape)
            continue
        most = min(shape.max_replicas, left // shape.gpus)
        left -= most * shape.gpus
        if most < shape.max_replicas:
            notes.append(
                f"the class's limits.gpus ({gpu_limit}) cuts maxReplicas of group {shape.name} from "
                f"{shape.max_replicas} to {most}"
            )
        out.append(replace(shape, max_replicas=most, min_replicas=min(shape.min_replicas, most)))
    return out, notes


def capacity(found: list[Shape]) -> int:
    """Training workers that all groups together can hold."""
    return sum(s.workers_per_pod * s.max_replicas for s in found)
