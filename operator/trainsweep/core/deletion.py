"""A sweep that is being deleted: stop, settle, let go, remove the finalizer; bounded by the grace and by force."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.labels import FORCE_RELEASE
from trainsweep.core.draft import Draft, is_true
from trainsweep.core.ends import Cause, Stop
from trainsweep.core.model import FINALIZER, DeleteHold, RemoveFinalizer, Unreadable
from trainsweep.core.release import release
from trainsweep.core.running import ask_to_stop, end, head_pod, watch
from trainsweep.core.settle import settle
from trainsweep.core.times import to_seconds, to_text
from trainsweep.render.rayjob import hold_name

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
    grace = spec.cleanup.deletion_grace_seconds if spec else DEFAULT_GRACE
    until = (sweep.deletion_requested_at or draft.now) + grace
    draft.set(deadlines=draft.status.deadlines.model_copy(update={"deletion": to_text(until)}))
    forced = FORCE_RELEASE in sweep.annotations
    if attempt.settled_at is None and not forced and draft.now < until:
        draft.wake(until)
        _settle_first(draft, spec)
        if draft.status.attempts[-1].settled_at is None:
            return
    if attempt.settled_at is None:
        why = "the annotation asks for it" if forced else f"the grace of {grace} s is over"
        if attempt.ended_at is None:
            end(draft, Cause.STOP_NOT_OBEYED, f"Released without settlement: {why}.")
        if not attempt.released_at:
            draft.event(Reason.FORCED, f"Released without settlement: {why}.", "Warning")
    reason = Reason.RELEASED if draft.status.attempts[-1].settled_at else Reason.FORCED
    if release(draft, delete=True, reason=reason):
        if draft.observed.hold is not None and not isinstance(draft.observed.hold, Unreadable):
            draft.after.append(DeleteHold(hold_name(attempt.ray_job)))
        draft.after.append(RemoveFinalizer())


def _settle_first(draft: Draft, spec: TrainSweepSpec | None) -> None:
    attempt = draft.status.attempts[-1]
    if spec is None:
        return
    if is_true(draft.status, Condition.FINISHED):
        draft.stamp_attempt("settled_at")
        return
    if attempt.ended_at is None:
        if draft.observed.ray_job is None and not attempt.ray_job_uid:
            # Recorded, never posted: there is nothing to settle.
            end(draft, Cause.RAY_JOB_DELETED, "The sweep was deleted before its RayJob was made.")
            draft.stamp_attempt("settled_at")
            return
        pods = draft.observed.pods if isinstance(draft.observed.pods, tuple) else None
        ask_to_stop(draft, Stop.DELETED)
        if pods is not None and attempt.ready_at is None and head_pod(pods) is None:
            end(draft, Cause.STOP_NOT_OBEYED, "The sweep was deleted before its cluster had started.")
        else:
            watch(draft, spec)
        if draft.status.attempts[-1].ended_at is None:
            return
    if attempt.ready_at is None and attempt.first_report_at is None:
        draft.stamp_attempt("settled_at")
        return
    settle(draft, spec)
    draft.state(Reason.DELETING, "Settling the running attempt before the deletion goes on.")


def deadline_passed(draft: Draft) -> bool:
    """Whether the deletion's grace is over."""
    until = to_seconds(draft.status.deadlines.deletion)
    return until is not None and draft.now >= until
