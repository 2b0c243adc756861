"""An attempt that has ended: its settlement, waited for within the hold; an unreadable store is not a lost one."""

from __future__ import annotations

from trainsweep.api.conditions import Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import FailureReason
from trainsweep.core.conclude import conclude, last_said
from trainsweep.core.draft import Draft
from trainsweep.core.ends import Cause
from trainsweep.core.export import settle_export
from trainsweep.core.model import PatchRayJob, Proof, Settle, Settlement, Unreadable
from trainsweep.core.sight import own_attempt, own_job
from trainsweep.core.times import to_seconds, to_text
from trainsweep.core.verification import RELOOK_SECONDS, record_settlement, recorded_proof

INVALID_PATIENCE = 60.0
"""Seconds for which a receipt that contradicts the store is looked at again: the store may lag behind itself."""
LEASE_AHEAD = 60
"""Seconds before its end in which a lease is extended."""
WAIT_SECONDS = 5.0
FIRST_LOOK_SECONDS = 3600.0
"""How long beyond the longest hold a first look is waited for: an operator that was away all the time looks once."""

_NOBODY = "No look at the store has ended, also not after the longest hold."


def settle(draft: Draft, spec: TrainSweepSpec) -> None:
    """Takes the settlement of an ended attempt, or waits for it until the longest hold is over."""
    attempt = draft.status.attempts[-1]
    ended = to_seconds(attempt.ended_at) or draft.now
    over = ended + spec.cleanup.max_hold_seconds
    draft.set(deadlines=draft.status.deadlines.model_copy(update={"hold": to_text(over)}))
    found = recorded_proof(draft)
    if found is None:
        found = _looked(draft, ended)
        if found is not None:
            record_settlement(draft, found)
    decided = found is not None and (not _undecided(draft, found, ended) or _nothing_can_be_owed(draft, found))
    if found is not None and decided and _last_word_known(draft, found):
        if draft.now < over and not settle_export(draft, spec, found, ended):
            _extend_lease(draft, spec)
            return
        conclude(draft, spec, found)
        return
    if draft.now >= (over if found is not None else over + FIRST_LOOK_SECONDS):
        # The named end of the hold: nobody could look, and that is what is said.
        if found is None:
            found = Settlement(own_attempt(draft), "Inventory", "", Proof.UNKNOWN, message=_NOBODY)
            record_settlement(draft, found)
        conclude(draft, spec, found)
        return
    if found is not None and found.proof is not Proof.PERSISTED:
        draft.state(Reason.VERIFYING, found.message)
    else:
        draft.state(Reason.SETTLING, attempt.message)
    due = found is None or (_undecided(draft, found, ended) and draft.now >= found.made_at + RELOOK_SECONDS)
    if due and not draft.observed.store.settling:
        draft.after.append(Settle(own_attempt(draft), "", inventory=True))
    _extend_lease(draft, spec)
    draft.wake(draft.now + WAIT_SECONDS)


def _looked(draft: Draft, ended: float) -> Settlement | None:
    """The newest look at this attempt, if it was made after its end or its proof holds whenever it was made."""
    found = draft.observed.store.settlement
    if found is None or found.attempt_id != own_attempt(draft):
        return None
    lasting = found.proof is Proof.PERSISTED and found.digest != ""
    return found if lasting or found.made_at >= ended else None


def _undecided(draft: Draft, found: Settlement, ended: float) -> bool:
    return found.proof is Proof.UNKNOWN or (found.proof is Proof.INVALID and draft.now < ended + INVALID_PATIENCE)


def _nothing_can_be_owed(draft: Draft, found: Settlement) -> bool:
    """Whether a refused look need not be waited for: the driver was refused too, before any trial of the sweep reported."""
    last = last_said(draft)
    never = draft.status.best is None and all(a.first_report_at is None for a in draft.status.attempts)
    return found.denied and never and last is not None and last.reason == FailureReason.STORAGE_DENIED


def _last_word_known(draft: Draft, found: Settlement) -> bool:
    """Whether the driver's last word was looked for, or is not needed: it names causes that no retry mends."""
    if draft.status.attempts[-1].reason == Cause.JOB_SUCCEEDED and found.outcome is not None:
        return True
    said = draft.observed.store.end
    if last_said(draft) is not None:
        return True
    # In the pass that sees the end it was not asked for yet.
    seen_before = bool(draft.before.attempts) and draft.before.attempts[-1].ended_at is not None
    return seen_before and not isinstance(said, Unreadable)


def _extend_lease(draft: Draft, spec: TrainSweepSpec) -> None:
    """While nothing definite is known the lease is moved ahead of us, up to `maxHoldSeconds`."""
    job = own_job(draft)
    if job is None or job.ended_at is None or job.deployment_status not in ("Complete", "Failed"):
        return
    longest = spec.cleanup.max_hold_seconds
    if job.ttl_seconds < longest and draft.now >= job.ended_at + job.ttl_seconds - LEASE_AHEAD:
        draft.after.append(PatchRayJob(job.name, job.uid, {"ttlSecondsAfterFinished": longest}))
