"""What the end of a settled attempt is booked to, and whether the sweep ends there or goes on."""

from __future__ import annotations

import re

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import End, LastWord, Outcome
from trainsweep.core import deadlines
from trainsweep.core.draft import Draft, find_condition
from trainsweep.core.ends import Cause, EndClass, EndFacts, EndVerdict, classify
from trainsweep.core.launch import class_of, class_total_limit, first_start
from trainsweep.core.model import DeleteRayJob, Proof, Settlement
from trainsweep.core.retries import MAX_ATTEMPTS, backoff_seconds, book, with_limits
from trainsweep.core.sight import own_job
from trainsweep.core.times import to_text
from trainsweep.core.usage import over_budget

_EXIT_CODE = re.compile(r"failed with exit code (-?\d{1,3})\b")
_USED_UP = (
    Reason.RETRIES_EXHAUSTED,
    Reason.STARTUP_DEADLINE_EXCEEDED,
    Reason.QUEUED_DEADLINE_EXCEEDED,
    Reason.STALL_DEADLINE_EXCEEDED,
)
"""Reasons of a class of end whose retries are used up."""


def conclude(draft: Draft, spec: TrainSweepSpec, found: Settlement) -> None:
    """Books the end: success, a further attempt, or the end of the sweep."""
    attempt = draft.status.attempts[-1]
    last = last_said(draft)
    facts = EndFacts(
        cause=_cause(attempt.reason),
        stop=attempt.stop_reason,
        outcome=_outcome(found, last),
        driver_reason=(last.reason if last else "") or found.outcome_reason,
        proof=found.proof,
        message=f"{attempt.message} {last.message if last else ''}",
        exit_code=_exit_code(attempt.message),
    )
    verdict = classify(facts)
    message = (last.message if last and last.message else "") or found.outcome_message or attempt.message
    draft.stamp_attempt("settled_at")
    draft.set_attempt(end_class=verdict.end_class, message=message[:2048])
    draft.set(retries=with_limits(draft.status.retries, spec.failure_policy))
    _forget_earlier(draft)
    draft.wake(draft.now)
    if draft.observed.sweep.deletion_requested_at is not None:
        return
    if verdict.end_class is EndClass.SUCCESS:
        _succeed(draft, spec, found, verdict)
        return
    if verdict.end_class is EndClass.SUSPENDED and attempt.number < MAX_ATTEMPTS:
        draft.set(deadlines=draft.status.deadlines.model_copy(update={"retry": None}))
        draft.state(Reason.STOPPING, "The attempt is settled; its cluster is being released.")
        return
    if not verdict.permanent and attempt.number < MAX_ATTEMPTS:
        booked = book(draft.status.retries, verdict.end_class)
        again = draft.now + backoff_seconds(spec.failure_policy, attempt.number)
        over = _over_by(draft, spec, again)
        if booked is not None and not over:
            draft.set(retries=booked, deadlines=draft.status.deadlines.model_copy(update={"retry": to_text(again)}))
            words = f"Attempt {attempt.number} ended ({verdict.end_class}: {(message or facts.cause).rstrip('.')})"
            draft.state(Reason.RETRYING, f"{words}; the next one follows.")
            draft.event(Reason.RETRYING, words, "Warning")
            return
        if booked is not None:
            verdict = EndVerdict(verdict.end_class, True, Reason.DEADLINE_EXCEEDED)
            message = f"{message or facts.cause}; {over} leaves no time for a further attempt"
    _fail(draft, spec, facts, verdict, message)


def _over_by(draft: Draft, spec: TrainSweepSpec, again: float) -> str:
    """Which deadline of the sweep will be over when the next attempt could start; "" where none will be."""
    total = deadlines.total_at(spec, first_start(draft), class_total_limit(draft))
    not_after = deadlines.not_after_at(spec)
    if total is not None and again >= total:
        return "deadlines.totalSeconds"
    return "deadlines.notAfter" if not_after is not None and again >= not_after else ""


def last_said(draft: Draft) -> End | LastWord | None:
    """The driver's last word: as written to the store, or, where it could not write there, as its log ends."""
    said, job = draft.observed.store.end, own_job(draft)
    if isinstance(said, End):
        return said
    return job.last_word if job is not None else None


def _forget_earlier(draft: Draft) -> None:
    """The RayJob object of the attempt before goes: its cluster went long ago, and the status tells how it ended."""
    if len(draft.status.attempts) > 1:
        earlier = draft.status.attempts[-2]
        if earlier.ray_job_uid:
            draft.after.append(DeleteRayJob(earlier.ray_job, earlier.ray_job_uid))


def _outcome(found: Settlement, last: End | LastWord | None) -> Outcome | None:
    """The receipt's word, unless the driver was stopped after it before it could mend what was missing."""
    if last is not None and (found.outcome is None or last.outcome is Outcome.STOPPED):
        return last.outcome
    return found.outcome


def _exit_code(message: str) -> int | None:
    """The driver's exit code in the message of a job that failed, as Ray says it."""
    found = _EXIT_CODE.search(message)
    return int(found[1]) if found else None


def _cause(reason: str) -> Cause:
    try:
        return Cause(reason)
    except ValueError:
        return Cause.UNKNOWN


def _proof_words(draft: Draft) -> str:
    held = find_condition(draft.status, Condition.CHECKPOINTS_VERIFIED)
    return held.message if held is not None and held.status == "False" else ""


def _unread(draft: Draft, spec: TrainSweepSpec) -> str:
    held = find_condition(draft.status, Condition.CHECKPOINTS_VERIFIED)
    return f"The store could not be read for {spec.cleanup.max_hold_seconds} s: {held.message if held else ''}"


def _succeed(draft: Draft, spec: TrainSweepSpec, found: Settlement, verdict: EndVerdict) -> None:
    draft.condition(Condition.TRIALS_FINISHED, True, Reason.TRIALS_FINISHED)
    proven = found.proof is Proof.PERSISTED and (found.required > 0 or draft.require == "None")
    best = draft.status.best
    text = f"best {best.value} by {best.trial}" if best else "no objective was reported"
    if verdict.reason is Reason.ADOPTED_FINISHED_RUN:
        text = f"the run was finished before, nothing was trained (another spec.runKey starts anew); {text}"
    if proven:
        draft.finish(True, verdict.reason, f"{text}; {found.verified} of {found.required} owed checkpoints are proven.")
    elif spec.checkpoints.verify.on_missing == "Warn":
        words = _proof_words(draft) or found.message
        draft.finish(True, Reason.COMPLETED_UNVERIFIED, f"{text}; not all owed checkpoints are proven: {words}")
    elif found.proof is Proof.UNKNOWN:
        draft.finish(False, Reason.VERIFICATION_TIMED_OUT, _unread(draft, spec))
    else:
        draft.finish(False, Reason.CHECKPOINTS_MISSING, _proof_words(draft) or found.message)


def _fail(draft: Draft, spec: TrainSweepSpec, facts: EndFacts, verdict: EndVerdict, message: str) -> None:
    reason, said = verdict.reason, message
    message = said or f"{facts.cause}, without a message"
    if facts.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED) and facts.proof is Proof.UNKNOWN:
        reason = Reason.VERIFICATION_TIMED_OUT
    if reason is Reason.VERIFICATION_TIMED_OUT:
        message = _unread(draft, spec)
    if reason in _USED_UP:
        limit = getattr(draft.status.retries, verdict.end_class.lower(), None)
        used = (
            f"{limit.used} of {limit.limit} retries for {verdict.end_class} ends are used" if limit else "none is left"
        )
        message = f"{message} ({used}; raise failurePolicy.attempts in a new sweep to allow more)"
    if reason is Reason.UNKNOWN:
        reason = Reason.FAILED
        message = f"{message}: how the attempt ended is not known; it is not retried by itself."
    if reason is Reason.CHECKPOINTS_MISSING:
        message = "; ".join(words for words in (_proof_words(draft), said) if words) or message
        if spec.checkpoints.verify.on_missing == "Warn" and facts.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED):
            draft.finish(True, Reason.COMPLETED_UNVERIFIED, message)
            return
    if reason is Reason.BUDGET_EXCEEDED:
        message = f"{message}; {over_budget(draft.status, spec, class_of(draft)) or 'by the count of the driver'}"
    if facts.stop and not message.startswith(facts.stop):
        message = f"{facts.stop}: {message}"
    draft.finish(False, reason, message)
