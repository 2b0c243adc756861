"""What the pods have used: added up from their lifetimes, pass by pass, and the budget that bounds it.

The status holds a sum and the time until which it is counted. Each pass adds what the pods' lifetimes have beyond that
time, so that a restart neither loses nor doubles anything. A pod that vanished unseen counts until it was missed.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import TrainSweepStatus, UsageStatus
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.core.model import PodView
from trainsweep.core.times import to_seconds, to_text

HOUR = 3600


def count(usage: UsageStatus, pods: Iterable[PodView], now: float, alive_until: float | None = None) -> UsageStatus:
    """The usage until now.

    Args:
        usage: as the status holds it.
        pods: all pods of the newest attempt that are there.
        now: Unix seconds.
        alive_until: when pods that are gone had ended at the latest, where that is known.
    """
    until = int(now)
    since = to_seconds(usage.counted_until)
    if since is not None and until <= since:
        return usage
    gpu = cpu = gpus = cpus = old_gpus = old_cpus = 0
    for pod in pods:
        if pod.started_at is None:
            continue
        begin = int(pod.started_at) if since is None else max(int(pod.started_at), int(since))
        end = until if pod.ended_at is None else min(int(pod.ended_at), until)
        seconds = max(0, end - begin)
        gpu, cpu = gpu + seconds * pod.gpus, cpu + seconds * pod.cpus
        if pod.ended_at is None and pod.started_at <= until:
            gpus, cpus = gpus + pod.gpus, cpus + pod.cpus
        # Who ended in the second of the last count was seen running by it, and has not vanished.
        if since is not None and pod.started_at <= since and (pod.ended_at is None or pod.ended_at >= since):
            old_gpus, old_cpus = old_gpus + pod.gpus, old_cpus + pod.cpus
    if since is not None:
        last = until if alive_until is None else min(until, max(int(alive_until), int(since)))
        gpu += max(0, usage.gpus - old_gpus) * (last - int(since))
        cpu += max(0, usage.cpus - old_cpus) * (last - int(since))
    if not (gpu or cpu or gpus or cpus or usage.gpus or usage.cpus):
        return usage  # nothing to count, and nothing to write
    return UsageStatus(
        gpu_seconds=usage.gpu_seconds + gpu,
        cpu_seconds=usage.cpu_seconds + cpu,
        gpus=gpus,
        cpus=cpus,
        counted_until=to_text(until),
    )


def given_back(usage: UsageStatus) -> UsageStatus:
    """The usage once no pod is left: nothing is held that a later attempt's first count could miss."""
    return usage.model_copy(update={"gpus": 0, "cpus": 0})


def budget_seconds(spec: TrainSweepSpec, class_spec: TrainSweepClassSpec | None) -> tuple[int | None, int | None]:
    """GPU- and CPU-seconds that all attempts together may use: the spec's, or the class's where that is less."""
    gpu = [h for h in (spec.budget.gpu_hours, class_spec.limits.gpu_hours if class_spec else None) if h is not None]
    cpu = spec.budget.cpu_hours
    return int(min(gpu) * HOUR) if gpu else None, None if cpu is None else int(cpu * HOUR)


def over_budget(status: TrainSweepStatus, spec: TrainSweepSpec, class_spec: TrainSweepClassSpec | None) -> str:
    """Which budget is used up, in words; "" where none is."""
    gpu, cpu = budget_seconds(spec, class_spec)
    rows = (("GPU", "gpuHours", status.usage.gpu_seconds, gpu), ("CPU", "cpuHours", status.usage.cpu_seconds, cpu))
    for what, field, used, limit in rows:
        if limit is not None and used >= limit:
            return (
                f"{used / HOUR:.2f} of {limit / HOUR:.2f} {what}-hours are used: raise budget.{field}, and the class's "
                "limit where that is lower, and create the sweep again to go on"
            )
    return ""


def exhausted_at(
    status: TrainSweepStatus, spec: TrainSweepSpec, class_spec: TrainSweepClassSpec | None, now: float
) -> float | None:
    """When the budget is used up if nothing changes."""
    gpu, cpu = budget_seconds(spec, class_spec)
    used = status.usage
    rows = ((gpu, used.gpu_seconds, used.gpus), (cpu, used.cpu_seconds, used.cpus))
    times = [now + (limit - spent) / rate for limit, spent, rate in rows if limit is not None and rate > 0]
    return min((t for t in times if t > now), default=None)
