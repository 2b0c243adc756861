"""Deadlines as absolute times from stamps in the status, and which of them has passed.

The driver acts on its own deadline first and ends well; we ask it to stop `OPERATOR_MARGIN` later; KubeRay's backstop
comes last and does not stop the Ray job.
"""

from __future__ import annotations

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import AttemptStatus, TrainSweepStatus
from trainsweep.core.ends import Stop
from trainsweep.core.times import to_seconds, to_text

OPERATOR_MARGIN = 20.0
BACKSTOP_MARGIN = 300
NEVER = 2**31 - 1
"""The backstop of an attempt whose deadline was removed while it ran: as far away as KubeRay's int32 reaches."""


def startup_at(spec: TrainSweepSpec, attempt: AttemptStatus) -> float | None:
    """When the attempt's first report is due; None once it reported."""
    started = to_seconds(attempt.started_at)
    if spec.deadlines.startup_seconds is None or started is None or attempt.first_report_at is not None:
        return None
    return started + spec.deadlines.startup_seconds


def run_at(spec: TrainSweepSpec, attempt_started: float) -> float | None:
    """When the attempt must have ended."""
    return None if spec.deadlines.run_seconds is None else attempt_started + spec.deadlines.run_seconds


def total_at(spec: TrainSweepSpec, sweep_started: float, class_limit: int | None) -> float | None:
    """When the sweep must have ended: the spec's limit or the class's, the earlier one."""
    limits = [s for s in (spec.deadlines.total_seconds, class_limit) if s is not None]
    return sweep_started + min(limits) if limits else None


def driver_deadline(
    spec: TrainSweepSpec, attempt_started: float, sweep_started: float, class_limit: int | None
) -> float | None:
    """What the driver is told."""
    times = [t for t in (run_at(spec, attempt_started), total_at(spec, sweep_started, class_limit)) if t is not None]
    return min(times) if times else None


def backstop_seconds(spec: TrainSweepSpec, attempt_started: float, deadline: float | None) -> int | None:
    """`activeDeadlineSeconds` of the RayJob: well after the deadline, the stop and the verdict."""
    if deadline is None:
        return None
    ending = spec.cleanup.stop_grace_seconds + spec.checkpoints.verify.timeout_seconds + BACKSTOP_MARGIN
    return max(1, int(deadline - attempt_started) + ending)


def stop_due(spec: TrainSweepSpec, status: TrainSweepStatus, now: float, class_limit: int | None) -> Stop | None:
    """Which deadline asks for a stop now."""
    attempt = status.attempts[-1]
    started = to_seconds(attempt.started_at) or now
    total = total_at(spec, to_seconds(status.started_at) or started, class_limit)
    if total is not None and now >= total + OPERATOR_MARGIN:
        return Stop.TOTAL_DEADLINE
    run = run_at(spec, started)
    if run is not None and now >= run + OPERATOR_MARGIN:
        return Stop.RUN_DEADLINE
    startup = startup_at(spec, attempt)
    if startup is not None and now >= startup:
        return Stop.STARTUP_DEADLINE
    return None


def next_deadline(spec: TrainSweepSpec, status: TrainSweepStatus, now: float, class_limit: int | None) -> float | None:
    """The earliest moment at which `stop_due` can change its answer."""
    attempt = status.attempts[-1]
    started = to_seconds(attempt.started_at) or now
    total = total_at(spec, to_seconds(status.started_at) or started, class_limit)
    run = run_at(spec, started)
    times = [
        startup_at(spec, attempt),
        None if run is None else run + OPERATOR_MARGIN,
        None if total is None else total + OPERATOR_MARGIN,
    ]
    ahead = [t for t in times if t is not None and t > now]
    return min(ahead) if ahead else None


def as_text(value: float | None) -> str | None:
    """For `status.deadlines`."""
    return None if value is None else to_text(value)
