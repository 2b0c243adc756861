"""The copy of the best checkpoint: looked at after the proof and before the release, for no longer than the hold.

A failed export takes nothing from what the sweep has proven: it is said by a condition of its own.
"""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import Outcome
from trainsweep.core.draft import Draft
from trainsweep.core.model import ExportLook, ExportState, Proof, Settle, Settlement
from trainsweep.core.sight import own_attempt
from trainsweep.core.verification import RELOOK_SECONDS

WAIT_SECONDS = 5.0
GOOD = (Outcome.COMPLETED, Outcome.GOAL_REACHED)


def settle_export(draft: Draft, spec: TrainSweepSpec, found: Settlement, ended: float) -> bool:
    """Says what became of the export; False while it is worth waiting for a look at it.

    Args:
        draft: the plan in the making.
        spec: the resolved spec.
        found: the attempt's settlement, decided.
        ended: when the attempt ended.
    """
    if spec.checkpoints.export is None:
        return True
    if found.proof is not Proof.PERSISTED or found.required == 0 or found.outcome not in GOOD:
        words = "Nothing was copied: only the best checkpoint of a training that ended well, once it is proven, is exported."
        draft.condition(Condition.EXPORTED, False, Reason.NOT_EXPORTED, words)
        return True
    look = draft.observed.store.export
    if look is not None and look.attempt_id != own_attempt(draft):
        look = None
    if look is not None and look.state is not ExportState.UNKNOWN:
        _record(draft, look)
        return True
    if draft.now >= ended + spec.cleanup.hold_seconds:
        words = look.message if look is not None else "No look at the copy has ended."
        draft.condition(
            Condition.EXPORTED,
            None,
            Reason.EXPORT_UNVERIFIED,
            f"{words} The cluster was held for cleanup.holdSeconds; look at the copy by hand.",
        )
        return True
    words = look.message if look is not None else "The copy is being looked at."
    draft.condition(Condition.EXPORTED, None, Reason.EXPORT_UNVERIFIED, words)
    due = look is None or draft.now >= look.made_at + RELOOK_SECONDS
    if due and not draft.observed.store.settling:
        draft.after.append(Settle(own_attempt(draft), export=True))
    draft.state(Reason.SETTLING, words)
    draft.wake(draft.now + WAIT_SECONDS)
    return False


def _record(draft: Draft, look: ExportLook) -> None:
    if look.state is ExportState.PROVEN:
        held = draft.status.checkpoints.model_copy(update={"export_uri": look.uri})
        draft.set(checkpoints=held)
        words = f"{look.files} files, {look.bytes} bytes, proven at {look.uri}"
        draft.condition(Condition.EXPORTED, True, Reason.EXPORTED, words)
        return
    absent = look.state is ExportState.ABSENT
    reason = Reason.NOT_EXPORTED if absent else Reason.EXPORT_FAILED
    draft.condition(Condition.EXPORTED, False, reason, look.message)
    draft.event(reason, look.message, "Warning")
