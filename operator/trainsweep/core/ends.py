"""How an attempt ended: first-match rules, as data, from what was seen to a class and to a retry that may help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from trainsweep.api.conditions import Reason
from trainsweep.contract.documents import (
    ADOPTED,
    EXIT_FENCED,
    EXIT_NOT_VERIFIED,
    EXIT_PERMANENT,
    EXIT_STOPPED,
    EXIT_USAGE,
    FailureReason,
    Outcome,
)
from trainsweep.core.model import Proof


class EndClass(StrEnum):
    """What an end is booked to."""

    SUCCESS = "Success"
    APPLICATION = "Application"
    INFRASTRUCTURE = "Infrastructure"
    EVICTION = "Eviction"
    STARTUP = "Startup"
    DEADLINE = "Deadline"  # never retried
    BUDGET = "Budget"  # never retried
    SUSPENDED = "Suspended"  # as spec.suspend asked: the next attempt costs no retry
    UNKNOWN = "Unknown"  # never retried by itself


class Cause(StrEnum):
    """What was seen to end the attempt; latched in the attempt's `reason`, since the objects may be gone later."""

    JOB_SUCCEEDED = "JobSucceeded"
    JOB_FAILED = "JobFailed"
    JOB_STOPPED = "JobStopped"
    HEAD_LOST = "HeadLost"
    HEAD_OUT_OF_MEMORY = "HeadOutOfMemory"
    RAY_JOB_DELETED = "RayJobDeleted"
    SUSPENDED = "Suspended"
    STARTUP_DEADLINE = "StartupDeadlineExceeded"
    STOP_NOT_OBEYED = "StopNotObeyed"
    NEVER_READY = "StoppedBeforeStart"
    BACKSTOP = "BackstopDeadlineExceeded"
    REFUSED = "KubeRayRefused"
    CANNOT_START = "CannotStart"
    FORCED = "Forced"
    UNKNOWN = "Unknown"


class Stop(StrEnum):
    """Why we asked the driver to stop."""

    RUN_DEADLINE = "RunDeadlineExceeded"
    TOTAL_DEADLINE = "TotalDeadlineExceeded"
    STARTUP_DEADLINE = "StartupDeadlineExceeded"
    QUEUED_DEADLINE = "QueuedDeadlineExceeded"
    STALL_DEADLINE = "StallDeadlineExceeded"
    NOT_AFTER = "NotAfterPassed"
    BUDGET = "BudgetExceeded"
    DELETED = "Deleted"
    SUSPENDED = "Suspended"
    RAY_JOB_DELETED = "RayJobDeleted"  # and its cluster was left running


@dataclass(frozen=True)
class EndFacts:
    """All that the rules look at."""

    cause: Cause
    stop: str = ""
    outcome: Outcome | None = None
    driver_reason: str = ""
    proof: Proof | None = None
    message: str = ""
    exit_code: int | None = None
    """Of the driver, as Ray told KubeRay; known also where the driver could leave no word of its own."""


@dataclass(frozen=True)
class EndVerdict:
    """The class, whether it is permanent, and the reason that the sweep shows if it ends here."""

    end_class: EndClass
    permanent: bool
    reason: Reason


@dataclass(frozen=True)
class EndRule:
    """One rule: the first whose test holds decides. `text` is its line in the documentation."""

    text: str
    test: Callable[[EndFacts], bool]
    verdict: EndVerdict


_PERMANENT = {
    FailureReason.BAD_ENTRYPOINT,
    FailureReason.STORAGE_DENIED,
    FailureReason.INVALID_SWEEP,
    FailureReason.INCOMPATIBLE,
    FailureReason.NO_TRIAL_SUCCEEDED,
}
_PASSING = {FailureReason.STORAGE_UNAVAILABLE, FailureReason.FENCED}
_WELL = {Outcome.COMPLETED, Outcome.GOAL_REACHED}
_KILLED = (137, -9)
"""SIGKILL, as a shell says it and as Python does: the kernel, or Ray's own watch over the head's memory."""
_DRIVER_MISSING = ("No module named trainjobs", "No module named 'trainjobs'")


def _v(end_class: EndClass, reason: Reason, permanent: bool = False) -> EndVerdict:
    return EndVerdict(end_class, permanent, reason)


def _silent(facts: EndFacts, *codes: int) -> bool:
    """Whether a driver that left no word of its own ended with one of these codes."""
    silent = facts.outcome is None and not facts.driver_reason
    return facts.cause is Cause.JOB_FAILED and silent and facts.exit_code in codes


# Success comes first: a stop that came too late takes nothing away from a sweep that ended well.
RULES: tuple[EndRule, ...] = (
    EndRule(
        "the job succeeded: the driver found the run finished by an earlier sweep, and it was proven again",
        lambda f: f.cause is Cause.JOB_SUCCEEDED and f.outcome in _WELL and f.driver_reason == ADOPTED,
        _v(EndClass.SUCCESS, Reason.ADOPTED_FINISHED_RUN),
    ),
    EndRule(
        "the job succeeded and its receipt says completed",
        lambda f: f.cause is Cause.JOB_SUCCEEDED and f.outcome is Outcome.COMPLETED,
        _v(EndClass.SUCCESS, Reason.COMPLETED),
    ),
    EndRule(
        "the job succeeded and its receipt says that the goal was reached",
        lambda f: f.cause is Cause.JOB_SUCCEEDED and f.outcome is Outcome.GOAL_REACHED,
        _v(EndClass.SUCCESS, Reason.GOAL_REACHED),
    ),
    EndRule(
        "the training was complete and proven, only the job's last word is missing",
        lambda f: f.outcome in _WELL and f.proof is Proof.PERSISTED and f.cause is not Cause.JOB_FAILED,
        _v(EndClass.SUCCESS, Reason.COMPLETED),
    ),
    EndRule(
        "our stop at the startup deadline, or KubeRay's",
        lambda f: f.stop == Stop.STARTUP_DEADLINE or f.cause is Cause.STARTUP_DEADLINE,
        _v(EndClass.STARTUP, Reason.STARTUP_DEADLINE_EXCEEDED),
    ),
    EndRule(
        "our stop at the queued deadline",
        lambda f: f.stop == Stop.QUEUED_DEADLINE,
        _v(EndClass.STARTUP, Reason.QUEUED_DEADLINE_EXCEEDED),
    ),
    EndRule(
        "our stop at the run or total deadline or at notAfter, or the driver's own",
        lambda f: (
            f.stop in (Stop.RUN_DEADLINE, Stop.TOTAL_DEADLINE, Stop.NOT_AFTER) or f.outcome is Outcome.DEADLINE_EXCEEDED
        ),
        _v(EndClass.DEADLINE, Reason.DEADLINE_EXCEEDED, True),
    ),
    EndRule(
        "our stop at the end of the budget, or the driver's own",
        lambda f: f.stop == Stop.BUDGET or f.outcome is Outcome.BUDGET_EXCEEDED,
        _v(EndClass.BUDGET, Reason.BUDGET_EXCEEDED, True),
    ),
    EndRule(
        "KubeRay's backstop deadline",
        lambda f: f.cause is Cause.BACKSTOP,
        _v(EndClass.DEADLINE, Reason.DEADLINE_EXCEEDED, True),
    ),
    EndRule(
        "too many trials failed",
        lambda f: f.outcome is Outcome.MAX_FAILED_TRIALS,
        _v(EndClass.APPLICATION, Reason.MAX_FAILED_TRIALS, True),
    ),
    EndRule(
        "owed checkpoints are missing and the driver could not mend them",
        lambda f: (
            (f.driver_reason == FailureReason.CHECKPOINTS_LOST and f.outcome is not Outcome.STOPPED)
            or (f.outcome in _WELL and f.proof is Proof.MISSING and f.cause is Cause.JOB_FAILED)
        ),
        _v(EndClass.APPLICATION, Reason.CHECKPOINTS_MISSING, True),
    ),
    EndRule(
        "the driver names a cause that no retry mends",
        lambda f: f.driver_reason in _PERMANENT,
        _v(EndClass.APPLICATION, Reason.PERMANENT_FAILURE, True),
    ),
    EndRule(
        "the image has no driver, or one that knows no such command line",
        lambda f: any(text in f.message for text in _DRIVER_MISSING) or _silent(f, EXIT_USAGE),
        _v(EndClass.APPLICATION, Reason.PERMANENT_FAILURE, True),
    ),
    EndRule(
        "the driver could leave no word, and its exit code says that no retry helps",
        lambda f: _silent(f, EXIT_PERMANENT),
        _v(EndClass.APPLICATION, Reason.PERMANENT_FAILURE, True),
    ),
    EndRule(
        "the driver could leave no word, and its exit code says that owed checkpoints are lost",
        lambda f: _silent(f, EXIT_NOT_VERIFIED),
        _v(EndClass.APPLICATION, Reason.CHECKPOINTS_MISSING, True),
    ),
    EndRule(
        "our stop for a suspension, however the attempt then ended",
        lambda f: f.stop == Stop.SUSPENDED,
        _v(EndClass.SUSPENDED, Reason.SUSPENDED),
    ),
    EndRule(
        "the driver saw that no trial reported any more",
        lambda f: f.driver_reason == Stop.STALL_DEADLINE,
        _v(EndClass.APPLICATION, Reason.STALL_DEADLINE_EXCEEDED),
    ),
    EndRule(
        "our stop at the stall deadline: no heartbeat came, or the driver did not see its own stall",
        lambda f: f.stop == Stop.STALL_DEADLINE,
        _v(EndClass.INFRASTRUCTURE, Reason.STALL_DEADLINE_EXCEEDED),
    ),
    EndRule(
        "the driver names a cause that passes",
        lambda f: f.driver_reason in _PASSING or _silent(f, EXIT_FENCED),
        _v(EndClass.INFRASTRUCTURE, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule(
        "the head was lost", lambda f: f.cause is Cause.HEAD_LOST, _v(EndClass.INFRASTRUCTURE, Reason.RETRIES_EXHAUSTED)
    ),
    EndRule(
        "the head or the driver was killed for memory: raise cluster.head.resources.memory",
        lambda f: f.cause is Cause.HEAD_OUT_OF_MEMORY or _silent(f, *_KILLED),
        _v(EndClass.APPLICATION, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule(
        "the RayJob was deleted or suspended (by Kueue, by a person), or its driver stopped from outside",
        lambda f: (
            f.cause in (Cause.RAY_JOB_DELETED, Cause.SUSPENDED, Cause.JOB_STOPPED)
            or f.outcome is Outcome.STOPPED
            or _silent(f, EXIT_STOPPED)
        ),
        _v(EndClass.EVICTION, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule(
        "KubeRay refused the RayJob",
        lambda f: f.cause is Cause.REFUSED,
        _v(EndClass.APPLICATION, Reason.KUBERAY_REFUSED, True),
    ),
    EndRule(
        "the pods can never start",
        lambda f: f.cause is Cause.CANNOT_START,
        _v(EndClass.STARTUP, Reason.PERMANENT_FAILURE, True),
    ),
    EndRule(
        "the job succeeded, and until the end of the hold nobody could look at what it left",
        lambda f: f.cause is Cause.JOB_SUCCEEDED and f.proof is Proof.UNKNOWN,
        _v(EndClass.UNKNOWN, Reason.VERIFICATION_TIMED_OUT, True),
    ),
    EndRule(
        "the job failed, or ended without a receipt, or its driver said that it failed whatever KubeRay says",
        lambda f: f.cause in (Cause.JOB_FAILED, Cause.JOB_SUCCEEDED) or f.outcome is Outcome.FAILED,
        _v(EndClass.APPLICATION, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule("anything else: how it ended is not known", lambda f: True, _v(EndClass.UNKNOWN, Reason.UNKNOWN, True)),
)


def classify(facts: EndFacts) -> EndVerdict:
    """The first rule that holds."""
    return next(rule.verdict for rule in RULES if rule.test(facts))
