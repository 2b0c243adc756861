"""decide(observed, now) -> Plan: what one pass does for one sweep. Same inputs, same plan.

The order of the branches is the order of what must not be missed: deletion, the terminal latch, admission, then the
newest attempt's life: launch, watch, settle, release, and again.
"""

from __future__ import annotations

from trainsweep.api.checks import check_spec
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.resolve import SpecError
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.labels import RETRY_NOW
from trainsweep.core import deadlines
from trainsweep.core.deletion import delete
from trainsweep.core.draft import Draft, find_condition, is_true
from trainsweep.core.grant import keep_grant
from trainsweep.core.launch import class_of, class_total_limit, first_start, launch
from trainsweep.core.line import keep_place, may_start
from trainsweep.core.model import (
    FINALIZER,
    DeleteHold,
    DeleteRayJob,
    HoldView,
    Observed,
    Plan,
    RayJobView,
    RemoveFinalizer,
)
from trainsweep.core.pending.record import record_refusal
from trainsweep.core.release import object_ttl_at, release
from trainsweep.core.resolved import resolved
from trainsweep.core.retries import with_limits
from trainsweep.core.running import watch
from trainsweep.core.settle import settle
from trainsweep.core.sight import own_job
from trainsweep.core.times import to_seconds
from trainsweep.core.usage import count, over_budget
from trainsweep.render.admission import check_class

CLASS_RETRY_SECONDS = 60.0
CLOCK_SKEW = 60.0
"""Seconds that the clock of who annotates may be ahead of ours; a time further off would end every pause to come."""
DEFAULT_TTL = 86400
"""How long the last RayJob object of a terminal sweep is kept whose spec cannot be read any more."""


def decide(observed: Observed, now: float) -> Plan:
    """The plan for one sweep at one moment."""
    draft = Draft(observed, now)
    spec, problem = _spec(observed)
    if spec is not None:
        draft.require = spec.checkpoints.require
    _count_usage(draft)
    if observed.sweep.deletion_requested_at is not None:
        if FINALIZER not in observed.sweep.finalizers:
            return Plan()
        delete(draft, spec)
        return draft.plan()
    if is_true(draft.status, Condition.FINISHED):
        _housekeeping(draft, spec)
        return draft.plan()
    attempt = draft.attempt
    if attempt is None or attempt.gone_at is not None:
        _next_attempt(draft, spec, problem)
        return draft.plan()
    if attempt.settled_at is not None:
        _let_go(draft, spec)
        return draft.plan()
    if spec is None:
        # A live attempt whose spec cannot be read any more: say so, touch nothing. KubeRay's own bounds hold.
        draft.condition(Condition.ADMITTED, False, Reason.INVALID_SPEC, problem)
        draft.stalled(Reason.INVALID_SPEC, problem)
        draft.wake(now + CLASS_RETRY_SECONDS)
        return draft.plan()
    draft.set(retries=with_limits(draft.status.retries, spec.failure_policy))
    refused = find_condition(draft.status, Condition.ADMITTED)
    if refused is not None and refused.reason == Reason.INVALID_SPEC:
        draft.condition(Condition.ADMITTED, True, Reason.ADMITTED)
    keep_place(draft, spec)
    keep_grant(draft, spec)
    if attempt.ended_at is None:
        watch(draft, spec)
    if draft.status.attempts[-1].ended_at is not None and draft.status.attempts[-1].settled_at is None:
        settle(draft, spec)
    if draft.status.attempts[-1].settled_at is not None:
        _let_go(draft, spec)
    return draft.plan()


def _count_usage(draft: Draft) -> None:
    """Adds what the attempt's pods have used since it was counted last."""
    attempt, pods, job = draft.attempt, draft.observed.pods, own_job(draft)
    if attempt is None or attempt.gone_at is not None or not isinstance(pods, tuple):
        return
    ended = job.ended_at + job.ttl_seconds if job is not None and job.ended_at is not None else None
    draft.set(usage=count(draft.status.usage, pods, draft.now, ended))


def _spec(observed: Observed) -> tuple[TrainSweepSpec | None, str]:
    found = observed.sweep_class
    try:
        return resolved(observed.sweep.spec, found.spec if found else None), ""
    except SpecError as error:
        return None, str(error)


def _next_attempt(draft: Draft, spec: TrainSweepSpec | None, problem: str) -> None:
    """Admission, suspension, the pause before a retry, and the launch."""
    if _used_up(draft, spec):
        _housekeeping(draft, spec)
        return
    refused = _refusal(draft, spec, problem)
    draft.condition(Condition.ADMITTED, refused is None, *(refused or (Reason.ADMITTED, "")))
    if spec is not None:
        draft.set(retries=with_limits(draft.status.retries, spec.failure_policy))
        if spec.suspend:
            _stay_suspended(draft)
            return
    if refused is not None or spec is None:
        draft.stalled(*(refused or (Reason.INVALID_SPEC, problem)))
        record_refusal(draft, *(refused or (Reason.INVALID_SPEC, problem)))
        if spec is not None or draft.observed.class_error:
            draft.wake(draft.now + CLASS_RETRY_SECONDS)
        return
    again = to_seconds(draft.status.deadlines.retry) if draft.attempt else None
    if again is not None and draft.now < again and not _asked_to_go_on(draft):
        if find_condition(draft.status, Condition.STALLED):
            draft.state(Reason.RETRYING, "The next attempt follows.")
        draft.set(pending=None)
        draft.wake(again)
        return
    if not may_start(draft, spec):
        return
    launch(draft, spec, draft.status.attempt + 1)


def _asked_to_go_on(draft: Draft) -> bool:
    """Whether somebody asked for the next attempt after the last one ended; an older request was for another pause."""
    asked = to_seconds(draft.observed.sweep.annotations.get(RETRY_NOW))
    ended = to_seconds(draft.attempt.ended_at) if draft.attempt else None
    return asked is not None and ended is not None and ended <= asked <= draft.now + CLOCK_SKEW


def _refusal(draft: Draft, spec: TrainSweepSpec | None, problem: str) -> tuple[Reason, str] | None:
    """Why the sweep may not run, None where it may."""
    observed = draft.observed
    if observed.class_error:
        return Reason.CLASS_NOT_FOUND, observed.class_error
    if spec is None:
        return Reason.INVALID_SPEC, problem
    problems = [(Reason.INVALID_SPEC, path, text) for path, text in check_spec(spec)]
    limits = observed.sweep_class.spec if observed.sweep_class else None
    problems += [
        (p.reason, p.path, p.message) for p in check_class(spec, observed.sweep.spec, limits, observed.sweep.namespace)
    ]
    return (problems[0][0], "; ".join(f"{path}: {text}" for _, path, text in problems)) if problems else None


def _stay_suspended(draft: Draft) -> None:
    """No attempt is live: the sweep holds nothing, not even its finalizer, until somebody resumes it."""
    done = f"{draft.status.trials.summary} trials are done; " if draft.attempt is not None else ""
    if not is_true(draft.before, Condition.SUSPENDED):
        draft.event(Reason.SUSPENDED, "Suspended: nothing runs and nothing is held.")
    draft.set(pending=None, line=None)
    draft.suspended(f"{done}spec.suspend is true: set it to false to go on with attempt {draft.status.attempt + 1}.")
    if isinstance(draft.observed.hold, HoldView):
        draft.after.append(DeleteHold(draft.observed.hold.name))
    if FINALIZER in draft.observed.sweep.finalizers:
        draft.after.append(RemoveFinalizer())


def _used_up(draft: Draft, spec: TrainSweepSpec | None) -> bool:
    """Ends a sweep whose time or budget is over between two attempts, whatever keeps the next one from its start."""
    total, not_after = to_seconds(draft.status.deadlines.total), to_seconds(draft.status.deadlines.not_after)
    if spec is not None:
        not_after = deadlines.not_after_at(spec)
        total = deadlines.total_at(spec, first_start(draft), class_total_limit(draft)) if draft.attempt else None
    draft.wake(total)
    draft.wake(not_after)
    if not_after is not None and draft.now >= not_after:
        draft.finish(False, Reason.DEADLINE_EXCEEDED, "deadlines.notAfter passed before the next attempt could start.")
    elif total is not None and draft.now >= total:
        words = "deadlines.totalSeconds passed before the next attempt could start."
        draft.finish(False, Reason.DEADLINE_EXCEEDED, words)
    elif spec is not None and draft.attempt and (words := over_budget(draft.status, spec, class_of(draft))):
        draft.finish(False, Reason.BUDGET_EXCEEDED, words)
    else:
        return False
    return True


def _let_go(draft: Draft, spec: TrainSweepSpec | None) -> None:
    """A settled attempt: release it, then either rest (terminal) or go on."""
    if not release(draft):
        return
    if is_true(draft.status, Condition.FINISHED):
        _rest(draft, spec)
    else:
        draft.wake(to_seconds(draft.status.deadlines.retry) or draft.now)


def _housekeeping(draft: Draft, spec: TrainSweepSpec | None) -> None:
    """A terminal sweep never launches again: only what is left of its last attempt goes."""
    attempt = draft.attempt
    if attempt is not None and not release(draft):
        return
    _rest(draft, spec)


def _rest(draft: Draft, spec: TrainSweepSpec | None) -> None:
    attempt, job = draft.attempt, draft.observed.ray_job
    if attempt is None:
        # Ended before its first attempt: whoever waits for Released must not wait for ever.
        draft.condition(Condition.RELEASED, True, Reason.RELEASED, "No attempt was started.")
    if attempt is not None and isinstance(draft.observed.hold, HoldView):
        draft.after.append(DeleteHold(draft.observed.hold.name))  # one that was made again behind us
    if FINALIZER in draft.observed.sweep.finalizers:
        draft.after.append(RemoveFinalizer())
    if not isinstance(job, RayJobView) or job.deleting or job.sweep_uid != draft.observed.sweep.uid:
        return
    due = object_ttl_at(draft, spec.cleanup.ray_job_ttl_seconds if spec else DEFAULT_TTL)
    if due is not None and draft.now >= due:
        draft.after.append(DeleteRayJob(job.name, job.uid))
    else:
        draft.wake(due)
