"""Deadlines as absolute times from stamps in the status, and which of them has passed.

The driver acts on its own deadline first and ends well; we ask it to stop a margin later; KubeRay's backstop comes last
and does not stop the Ray job.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import AttemptStatus, DeadlinesStatus, TrainSweepStatus
from trainsweep.contract.documents import Phase, Progress
from trainsweep.core.ends import Stop
from trainsweep.core.times import to_seconds, to_text

OPERATOR_MARGIN = 20.0
STALL_MARGIN = 60.0
"""A stall is counted by the driver's clock and ours."""
BACKSTOP_MARGIN = 300
NEVER = 2**31 - 1
"""The backstop of an attempt whose deadline was removed while it ran: as far away as KubeRay's int32 reaches."""


@dataclass(frozen=True)
class Deadline:
    """One deadline: when it is due, and how long after it we leave it to the driver."""

    stop: Stop
    at: float
    margin: float = 0.0


def queued_at(spec: TrainSweepSpec, attempt: AttemptStatus) -> float | None:
    """When head and a first worker are due; None once they ran."""
    started = to_seconds(attempt.started_at)
    if spec.deadlines.queued_seconds is None or started is None or _placed(attempt) is not None:
        return None
    return started + spec.deadlines.queued_seconds


def startup_at(spec: TrainSweepSpec, attempt: AttemptStatus) -> float | None:
    """When the attempt's first report is due; None once it reported, and while `queuedSeconds` bounds its wait."""
    begun = to_seconds(attempt.started_at) if spec.deadlines.queued_seconds is None else _placed(attempt)
    if begun is None or attempt.first_report_at is not None:
        return None
    return begun + spec.deadlines.startup_seconds


def _placed(attempt: AttemptStatus) -> float | None:
    return to_seconds(attempt.placed_at) or to_seconds(attempt.first_report_at)


def stall_at(spec: TrainSweepSpec, attempt: AttemptStatus, progress: Progress | None) -> float | None:
    """When the next sign of life is due: a heartbeat always, a report or a trial's start while it trains."""
    limit = spec.deadlines.stall_seconds
    if limit is None or progress is None or attempt.first_report_at is None or progress.phase is Phase.ENDED:
        return None
    last = progress.heartbeat_at
    if progress.phase is Phase.RUNNING and progress.last_step_at is not None:
        last = min(last, progress.last_step_at)
    return last + limit


def run_at(spec: TrainSweepSpec, attempt_started: float) -> float | None:
    """When the attempt must have ended."""
    return None if spec.deadlines.run_seconds is None else attempt_started + spec.deadlines.run_seconds


def total_at(spec: TrainSweepSpec, sweep_started: float, class_limit: int | None) -> float | None:
    """When the sweep must have ended: the spec's limit or the class's, the earlier one."""
    limits = [s for s in (spec.deadlines.total_seconds, class_limit) if s is not None]
    return sweep_started + min(limits) if limits else None


def not_after_at(spec: TrainSweepSpec) -> float | None:
    """When the sweep must have ended by the calendar."""
    return to_seconds(spec.deadlines.not_after)


def driver_deadline(
    spec: TrainSweepSpec, attempt_started: float, sweep_started: float, class_limit: int | None
) -> float | None:
    """What the driver is told."""
    found = (run_at(spec, attempt_started), total_at(spec, sweep_started, class_limit), not_after_at(spec))
    return min((t for t in found if t is not None), default=None)


def backstop_seconds(spec: TrainSweepSpec, attempt_started: float, deadline: float | None) -> int | None:
    """`activeDeadlineSeconds` of the RayJob: well after the deadline, the stop and the verdict."""
    if deadline is None:
        return None
    ending = spec.cleanup.stop_grace_seconds + spec.checkpoints.verify.timeout_seconds + BACKSTOP_MARGIN
    return max(1, int(deadline - attempt_started) + ending)


def all_of(
    spec: TrainSweepSpec, status: TrainSweepStatus, now: float, class_limit: int | None, progress: Progress | None
) -> list[Deadline]:
    """The deadlines that hold for the newest attempt, the most final first."""
    attempt = status.attempts[-1]
    started = to_seconds(attempt.started_at) or now
    stalled = spec.cleanup.stop_grace_seconds + STALL_MARGIN
    found = [
        (Stop.NOT_AFTER, not_after_at(spec), OPERATOR_MARGIN),
        (Stop.TOTAL_DEADLINE, total_at(spec, to_seconds(status.started_at) or started, class_limit), OPERATOR_MARGIN),
        (Stop.RUN_DEADLINE, run_at(spec, started), OPERATOR_MARGIN),
        (Stop.QUEUED_DEADLINE, queued_at(spec, attempt), 0.0),
        (Stop.STARTUP_DEADLINE, startup_at(spec, attempt), 0.0),
        (Stop.STALL_DEADLINE, stall_at(spec, attempt, progress), stalled),
    ]
    return [Deadline(stop, at, margin) for stop, at, margin in found if at is not None]


def stop_due(found: list[Deadline], now: float) -> Stop | None:
    """Which deadline asks for a stop now."""
    return next((d.stop for d in found if now >= d.at + d.margin), None)


def next_deadline(found: list[Deadline], now: float) -> float | None:
    """The earliest moment at which `stop_due` can change its answer."""
    return min((d.at + d.margin for d in found if d.at + d.margin > now), default=None)


def as_status(found: list[Deadline], before: DeadlinesStatus, *, ended: bool) -> DeadlinesStatus:
    """`status.deadlines` of a live attempt."""
    at = {d.stop: to_text(d.at) for d in found if 0 <= d.at < 2**33}
    return DeadlinesStatus(
        queued=at.get(Stop.QUEUED_DEADLINE),
        startup=at.get(Stop.STARTUP_DEADLINE),
        stall=at.get(Stop.STALL_DEADLINE),
        run=at.get(Stop.RUN_DEADLINE),
        total=at.get(Stop.TOTAL_DEADLINE),
        not_after=at.get(Stop.NOT_AFTER),
        hold=before.hold if ended else None,
        deletion=before.deletion,
    )
