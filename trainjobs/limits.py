"""The limits that the driver keeps itself: what it was told at the start or since, and what it has used by its own count."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trainjobs.sweep import Sweep
from trainsweep.contract.documents import Limits

logger = logging.getLogger(__name__)
HOUR = 3600


def limits_of(sweep: Sweep) -> Limits:
    """The limits of a sweep file; what it does not say, as on a laptop, stands in the spec."""
    told, spec = sweep.file.limits, sweep.spec
    return Limits(
        deadline_at=sweep.file.deadline_at if told.deadline_at is None else told.deadline_at,
        stall_seconds=told.stall_seconds or spec.deadlines.stall_seconds,
        trial_seconds=told.trial_seconds or spec.deadlines.trial_seconds,
        gpu_seconds=_seconds(told.gpu_seconds, spec.budget.gpu_hours),
        cpu_seconds=_seconds(told.cpu_seconds, spec.budget.cpu_hours),
    )


def _seconds(told: int | None, hours: float | None) -> int | None:
    return told if told is not None or hours is None else int(hours * HOUR)


class Meter:
    """GPU- and CPU-seconds of this attempt, as Ray sees its nodes: less than the operator counts from the pods."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._at = clock, clock()
        self.gpu_seconds = self.cpu_seconds = 0.0
        self.size: Callable[[], tuple[float, float]] | None = None
        """GPUs and CPUs of the cluster; None before Ray is connected."""

    def count(self) -> None:
        """Adds what was used since the last count. A cluster that cannot be asked now is counted the next time."""
        if self.size is None:
            return
        try:
            gpus, cpus = self.size()
        except Exception as error:
            logger.warning("the size of the cluster is not known: %s", error)
            return
        now = self._clock()
        self.gpu_seconds += gpus * (now - self._at)
        self.cpu_seconds += cpus * (now - self._at)
        self._at = now

    def over(self, limits: Limits) -> bool:
        """Whether a budget is used up."""
        return (limits.gpu_seconds is not None and self.gpu_seconds >= limits.gpu_seconds) or (
            limits.cpu_seconds is not None and self.cpu_seconds >= limits.cpu_seconds
        )
