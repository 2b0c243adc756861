"""An attempt that has ended: its settlement, what it is booked to, and whether the sweep ends or goes on."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import AttemptStatus
from trainsweep.contract.documents import End, Outcome
from trainsweep.contract.layout import attempt_id
from trainsweep.core.draft import Draft, find_condition
from trainsweep.core.ends import Cause, EndClass, EndFacts, EndVerdict, Stop, classify
from trainsweep.core.model import PatchRayJob, Proof, RayJobView, Settle, Settlement, Unreadable
from trainsweep.core.retries import MAX_ATTEMPTS, backoff_seconds, book, with_limits
from trainsweep.core.times import to_seconds, to_text
from trainsweep.core.verification import RELOOK_SECONDS, record_settlement, recorded_for

INVALID_PATIENCE = 60.0
"""Seconds for which a receipt that contradicts the store is looked at again: the store may lag behind itself."""


def settle(draft: Draft, spec: TrainSweepSpec) -> None:
    """Takes the settlement of an ended attempt, or waits for it within the hold."""
    attempt = draft.status.attempts[-1]
    own = attempt_id(attempt.number, draft.observed.sweep.uid)
    found = draft.observed.store.settlement
    if found is not None and found.attempt_id != own:
        found = None
    ended = to_seconds(attempt.ended_at) or draft.now
    if found is not None and _after_end(found, ended):
        record_settlement(draft, found)
        patient = found.proof is Proof.INVALID and draft.now < ended + INVALID_PATIENCE
        if found.proof is Proof.UNKNOWN or patient:
            _wait_for_store(draft, spec, attempt, own, found)
            return
        conclude(draft, spec, found)
        return
    if not draft.observed.store.settling:
        draft.after.append(Settle(own, "", inventory=True))
    if not _was_running(attempt):
        draft.state(Reason.SETTLING, attempt.message)
    _extend_lease(draft, spec, ended)
    draft.wake(draft.now + 5)


def _after_end(found: Settlement, ended: float) -> bool:
    """Whether the look was made after the end, or its proof holds whenever it was made."""
    return found.proof is Proof.PERSISTED and bool(found.digest) or found.made_at >= ended


def _was_running(attempt: AttemptStatus) -> bool:
    return attempt.reason == Cause.JOB_SUCCEEDED


def _wait_for_store(draft: Draft, spec: TrainSweepSpec, attempt: AttemptStatus, own: str, found: Settlement) -> None:
    """Unreadable is not failed: look again until the longest hold is over, and then say that nobody could look."""
    ended = to_seconds(attempt.ended_at) or draft.now
    if draft.now >= ended + spec.cleanup.max_hold_seconds:
        conclude(draft, spec, found)
        return
    draft.state(Reason.VERIFYING, found.message)
    if draft.now >= found.made_at + RELOOK_SECONDS and not draft.observed.store.settling:
        draft.after.append(Settle(own, "", inventory=True))
    _extend_lease(draft, spec, ended)
    draft.wake(min(draft.now + RELOOK_SECONDS, ended + spec.cleanup.max_hold_seconds))


def _extend_lease(draft: Draft, spec: TrainSweepSpec, ended: float) -> None:
    """While the store cannot be read the lease is moved ahead of us, up to `maxHoldSeconds`."""
    job = draft.observed.ray_job
    if not isinstance(job, RayJobView) or job.ended_at is None or job.deployment_status not in ("Complete", "Failed"):
        return
    longest = spec.cleanup.max_hold_seconds
    if job.ttl_seconds < longest and draft.now >= job.ended_at + job.ttl_seconds - 60:
        draft.after.append(PatchRayJob(job.name, job.uid, {"ttlSecondsAfterFinished": longest}))


def conclude(draft: Draft, spec: TrainSweepSpec, found: Settlement) -> None:
    """Books the end: success, a further attempt, or the end of the sweep."""
    attempt = draft.status.attempts[-1]
    said = draft.observed.store.end
    last = said if isinstance(said, End) else None
    facts = EndFacts(
        cause=_cause(attempt.reason),
        stop=attempt.stop_reason,
        outcome=found.outcome or (last.outcome if last else None),
        driver_reason=(last.reason if last else "") or found.outcome_reason,
        proof=found.proof,
        message=f"{attempt.message} {last.message if last else ''}",
    )
    verdict = classify(facts)
    message = (last.message if last and last.message else "") or found.outcome_message or attempt.message
    draft.stamp_attempt("settled_at")
    draft.set_attempt(end_class=verdict.end_class, message=message[:2048])
    draft.set(retries=with_limits(draft.status.retries, spec.failure_policy))
    if attempt.stop_reason == Stop.DELETED:
        return
    if verdict.end_class is EndClass.SUCCESS:
        _succeed(draft, spec, found, verdict)
        return
    total = to_seconds(draft.status.deadlines.total)
    if not verdict.permanent and attempt.number < MAX_ATTEMPTS:
        booked = book(draft.status.retries, verdict.end_class)
        again = draft.now + backoff_seconds(spec.failure_policy, attempt.number)
        if booked is not None and (total is None or again < total):
            draft.set(retries=booked, deadlines=draft.status.deadlines.model_copy(update={"retry": to_text(again)}))
            draft.state(Reason.RETRYING, f"Attempt {attempt.number} ended ({verdict.end_class}: {message}); the next one follows.")
            draft.event(Reason.RETRYING, f"Attempt {attempt.number} ended ({verdict.end_class}): {message}", "Warning")
            draft.wake(draft.now)
            return
    _fail(draft, facts, verdict, message)


def _cause(reason: str) -> Cause:
    try:
        return Cause(reason)
    except ValueError:
        return Cause.UNKNOWN


def _succeed(draft: Draft, spec: TrainSweepSpec, found: Settlement, verdict: EndVerdict) -> None:
    draft.condition(Condition.TRIALS_FINISHED, True, Reason.TRIALS_FINISHED)
    proven = found.proof is Proof.PERSISTED and (found.required > 0 or draft.require == "None")
    best = draft.status.best
    text = f"best {best.value} by {best.trial}" if best else "no objective was reported"
    if proven:
        draft.finish(True, verdict.reason, f"{text}; {found.verified} of {found.required} owed checkpoints are proven.")
    elif spec.checkpoints.verify.on_missing == "Warn":
        draft.finish(True, Reason.COMPLETED_UNVERIFIED, f"{text}; not all owed checkpoints are proven: {found.message}")
    elif found.proof is Proof.UNKNOWN:
        draft.finish(False, Reason.VERIFICATION_TIMED_OUT, f"The store could not be read for {spec.cleanup.max_hold_seconds} s: {found.message}")
    else:
        held = find_condition(draft.status, Condition.CHECKPOINTS_VERIFIED)
        draft.finish(False, Reason.CHECKPOINTS_MISSING, held.message if held else found.message)


def _fail(draft: Draft, facts: EndFacts, verdict: EndVerdict, message: str) -> None:
    reason = verdict.reason
    if facts.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED) and facts.proof is Proof.UNKNOWN:
        reason = Reason.VERIFICATION_TIMED_OUT
    if reason is Reason.RETRIES_EXHAUSTED:
        limit = getattr(draft.status.retries, verdict.end_class.lower(), None)
        used = f"{limit.used} of {limit.limit} retries for {verdict.end_class} ends are used" if limit else "no retry is left"
        message = f"{message or facts.cause} ({used}; raise failurePolicy.attempts to allow more)"
    if reason is Reason.UNKNOWN:
        reason = Reason.FAILED
        message = f"{message or facts.cause}: how the attempt ended is not known; it is not retried by itself."
    if reason is Reason.CHECKPOINTS_MISSING:
        held = find_condition(draft.status, Condition.CHECKPOINTS_VERIFIED)
        message = f"{held.message if held and held.status == 'False' else ''} {message}".strip()
    if facts.stop:
        message = f"{facts.stop}: {message}"
    draft.finish(False, reason, message)


def holds_proof(draft: Draft, attempt: AttemptStatus) -> bool:
    """Whether the status alone proves the attempt's checkpoints (after a restart of the operator)."""
    return recorded_for(draft, attempt, attempt_id(attempt.number, draft.observed.sweep.uid))


def unreadable(value: object) -> bool:
    """Whether something could not be read in this pass."""
    return isinstance(value, Unreadable)
