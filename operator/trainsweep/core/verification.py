"""The verdict on a waiting driver's receipt, what the status says of it, and what a restarted operator reads back."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.status import CheckpointsStatus
from trainsweep.contract.documents import Outcome, Verdict
from trainsweep.contract.layout import attempt_id
from trainsweep.core.draft import Draft, is_true
from trainsweep.core.model import Proof, Settlement
from trainsweep.core.progress import record_best, record_trials
from trainsweep.core.times import to_seconds, to_text

RELOOK_SECONDS = 10.0


def verdict_of(settlement: Settlement) -> Verdict | None:
    """What the driver is told; None where nothing definite is known or there is no receipt to answer."""
    if not settlement.digest or settlement.proof not in (Proof.PERSISTED, Proof.MISSING):
        return None
    return Verdict(
        receipt_digest=settlement.digest,
        result="Persisted" if settlement.proof is Proof.PERSISTED else "Missing",
        missing=list(settlement.missing[:16]),
    )


def record_settlement(draft: Draft, settlement: Settlement) -> None:
    """Conditions and `status.checkpoints` from a second look. A proof that is recorded is never looked at again."""
    if settlement.trials is not None:
        record_trials(draft, settlement.trials)
    if settlement.best is not None:
        record_best(draft, settlement.best)
    missing = [f"{m.trial} {m.checkpoint}/{m.file}: {m.problem}" for m in settlement.missing[:16]]
    draft.set(
        checkpoints=CheckpointsStatus(
            source="Receipt" if settlement.source == "Receipt" else "Inventory",
            required=settlement.required,
            verified=settlement.verified,
            missing=missing,
            bytes=settlement.bytes,
            files=settlement.files,
            receipt_uri=settlement.receipt_uri,
            receipt_digest=settlement.digest,
            outcome=settlement.outcome or "",
            verified_at=to_text(settlement.made_at or draft.now) if settlement.proof is Proof.PERSISTED else None,
        )
    )
    status, reason, message = _condition(draft, settlement, missing)
    draft.condition(Condition.CHECKPOINTS_VERIFIED, status, reason, message)


def _condition(draft: Draft, found: Settlement, missing: list[str]) -> tuple[bool | None, Reason, str]:
    if found.proof is Proof.PERSISTED:
        if found.required == 0:
            if draft.require == "None":
                return True, Reason.NOT_REQUIRED, "checkpoints.require is None: nothing had to be proven."
            message = (
                "No committed checkpoint is owed: the loop must report with one; if it has none, set require: None."
            )
            return False, Reason.NOTHING_TO_VERIFY, message
        message = f"{found.verified} of {found.required} owed checkpoints, {found.files} files, {found.bytes} bytes."
        if found.advice:
            message += f" Beware: {found.advice}."
        return True, Reason.VERIFIED, message
    if found.proof is Proof.MISSING:
        words = "; ".join(missing) or found.message
        return False, Reason.FILES_MISSING, f"{found.advice}. {words}" if found.advice else words
    if found.proof is Proof.INVALID:
        return False, Reason.RECEIPT_INVALID, found.message
    reason = Reason.STORE_DENIED if found.denied else Reason.STORE_UNREADABLE
    return None, reason, found.message or "The store could not be read; it is tried again."


def recorded_proof(draft: Draft) -> Settlement | None:
    """The proof of the newest attempt that the status holds, by receipt or by inventory; None where it holds none.

    An operator that restarted trusts it: looking again could only replace a proof by "the store cannot be read".
    """
    held = draft.status.checkpoints
    own = attempt_id(draft.status.attempt, draft.observed.sweep.uid)
    received = bool(held.receipt_digest) and f"/attempts/{own}/" in held.receipt_uri
    # An inventory is made of an ended attempt only, and the next launch takes the condition back.
    counted = held.source == "Inventory" and is_true(draft.status, Condition.CHECKPOINTS_VERIFIED)
    if held.verified_at is None or not (received or counted):
        return None
    return Settlement(
        own,
        held.source,
        held.receipt_digest,
        Proof.PERSISTED,
        required=held.required,
        verified=held.verified,
        files=held.files,
        bytes=held.bytes,
        outcome=Outcome(held.outcome) if held.outcome in set(Outcome) else None,
        receipt_uri=held.receipt_uri,
        made_at=to_seconds(held.verified_at) or 0.0,
    )
