"""How an attempt ended: first-match rules, as data, from what was seen to a class and to a retry that may help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from trainsweep.api.conditions import Reason
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.core.model import Proof


class EndClass(StrEnum):
    """What an end is booked to."""

    SUCCESS = "Success"
    APPLICATION = "Application"
    INFRASTRUCTURE = "Infrastructure"
    EVICTION = "Eviction"
    STARTUP = "Startup"
    DEADLINE = "Deadline"  # never retried
    SUSPENDED = "Suspended"  # as spec.suspend asked: the next attempt costs no retry
    UNKNOWN = "Unknown"  # never retried by itself


class Cause(StrEnum):
    """What was seen to end the attempt; latched in the attempt's `reason`, since the objects may be gone later."""

    JOB_SUCCEEDED = "JobSucceeded"
    JOB_FAILED = "JobFailed"
    JOB_STOPPED = "JobStopped"
    HEAD_LOST = "HeadLost"
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
    DELETED = "Deleted"
    SUSPENDED = "Suspended"


@dataclass(frozen=True)
class EndFacts:
    """All that the rules look at."""

    cause: Cause
    stop: str = ""
    outcome: Outcome | None = None
    driver_reason: str = ""
    proof: Proof | None = None
    message: str = ""


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
_DRIVER_MISSING = ("No module named trainjobs", "No module named 'trainjobs'")


def _v(end_class: EndClass, reason: Reason, permanent: bool = False) -> EndVerdict:
    return EndVerdict(end_class, permanent, reason)


# Success comes first: a stop that came too late takes nothing away from a sweep that ended well.
RULES: tuple[EndRule, ...] = (
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
        _v(EndClass.STARTUP, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule(
        "our stop at the run or total deadline, or the driver's own",
        lambda f: f.stop in (Stop.RUN_DEADLINE, Stop.TOTAL_DEADLINE) or f.outcome is Outcome.DEADLINE_EXCEEDED,
        _v(EndClass.DEADLINE, Reason.DEADLINE_EXCEEDED, True),
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
        "the image has no driver",
        lambda f: any(text in f.message for text in _DRIVER_MISSING),
        _v(EndClass.APPLICATION, Reason.PERMANENT_FAILURE, True),
    ),
    EndRule(
        "our stop for a suspension, however the attempt then ended",
        lambda f: f.stop == Stop.SUSPENDED,
        _v(EndClass.SUSPENDED, Reason.SUSPENDED),
    ),
    EndRule(
        "the driver names a cause that passes",
        lambda f: f.driver_reason in _PASSING,
        _v(EndClass.INFRASTRUCTURE, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule(
        "the head was lost", lambda f: f.cause is Cause.HEAD_LOST, _v(EndClass.INFRASTRUCTURE, Reason.RETRIES_EXHAUSTED)
    ),
    EndRule(
        "the RayJob was deleted or suspended by others, or its driver stopped from outside",
        lambda f: (
            f.cause in (Cause.RAY_JOB_DELETED, Cause.SUSPENDED, Cause.JOB_STOPPED) or f.outcome is Outcome.STOPPED
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
        "the job failed, or ended without a receipt",
        lambda f: f.cause in (Cause.JOB_FAILED, Cause.JOB_SUCCEEDED),
        _v(EndClass.APPLICATION, Reason.RETRIES_EXHAUSTED),
    ),
    EndRule("anything else", lambda f: True, _v(EndClass.UNKNOWN, Reason.UNKNOWN, True)),
)


def classify(facts: EndFacts) -> EndVerdict:
    """The first rule that holds."""
    return next(rule.verdict for rule in RULES if rule.test(facts))
