"""A sweep that is being deleted: stop, settle, let go, remove the finalizer; bounded by the grace and by force."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.labels import FORCE_RELEASE
from trainsweep.core.draft import Draft, is_true
from trainsweep.core.ends import Cause, Stop
from trainsweep.core.model import FINALIZER, RemoveFinalizer, Unreadable
from trainsweep.core.release import release
from trainsweep.core.running import ask_to_stop, end, watch
from trainsweep.core.settle import settle
from trainsweep.core.sight import is_foreign, left_traces, own_job, traces_unknown, was_alive
from trainsweep.core.times import to_text

DEFAULT_GRACE = 600


def delete(draft: Draft, spec: TrainSweepSpec | None) -> None:
    """One pass of the deletion branch. `spec` None: it cannot be read, then only the grace bounds the wait."""
    sweep = draft.observed.sweep
    if FINALIZER not in sweep.finalizers:
        return
    attempt = draft.attempt
    if attempt is None:
        draft.after.append(RemoveFinalizer())
        return
    if attempt.settled_at is None and attempt.reason != Cause.FORCED:
        _settle_in_time(draft, spec)
        attempt = draft.status.attempts[-1]
        if attempt.settled_at is None and attempt.reason != Cause.FORCED:
            return
    reason = Reason.RELEASED if attempt.settled_at else Reason.FORCED
    if release(draft, delete=True, reason=reason):
        draft.after.append(RemoveFinalizer())


def _settle_in_time(draft: Draft, spec: TrainSweepSpec | None) -> None:
    """Settles the attempt, or gives it up: by force, or when the grace is over."""
    sweep = draft.observed.sweep
    grace = spec.cleanup.deletion_grace_seconds if spec else DEFAULT_GRACE
    until = (sweep.deletion_requested_at or draft.now) + grace
    draft.set(deadlines=draft.status.deadlines.model_copy(update={"deletion": to_text(until)}))
    forced = FORCE_RELEASE in sweep.annotations
    if not forced and draft.now < until:
        draft.wake(until)
        _settle(draft, spec)
        return
    why = "the annotation asks for it" if forced else f"the grace of {grace} s is over"
    end(draft, Cause.FORCED, f"Released without settlement: {why}.")
    draft.event(Reason.FORCED, f"Released without settlement: {why}.", "Warning")


def _settle(draft: Draft, spec: TrainSweepSpec | None) -> None:
    attempt = draft.status.attempts[-1]
    if is_true(draft.status, Condition.FINISHED):
        draft.stamp_attempt("settled_at")
        return
    if attempt.ended_at is None:
        if _never_made(draft, spec):
            end(draft, Cause.RAY_JOB_DELETED, "The sweep was deleted before its RayJob was made.")
            draft.stamp_attempt("settled_at")
            return
        if spec is None:
            return
        ask_to_stop(draft, Stop.DELETED)
        watch(draft, spec)
        if draft.status.attempts[-1].ended_at is None:
            return
    if not was_alive(draft):
        draft.stamp_attempt("settled_at")
        return
    if spec is None:
        return
    settle(draft, spec)
    draft.state(Reason.DELETING, "Settling the running attempt before the deletion goes on.")


def _never_made(draft: Draft, spec: TrainSweepSpec | None) -> bool:
    """Recorded, but no RayJob of ours was ever made: there is nothing to settle."""
    job = draft.observed.ray_job
    if isinstance(job, Unreadable):
        return False
    if own_job(draft) is None:
        return not left_traces(draft) and not traces_unknown(draft)
    return job is not None and is_foreign(draft, spec, job)
