"""What to do about a sweep that has failed: said once, at the end of the message of its last conditions."""

from __future__ import annotations

from trainsweep.api.conditions import Reason
from trainsweep.api.status import CheckpointsStatus
from trainsweep.core.size import short

_CURES: dict[str, str] = {
    Reason.DEADLINE_EXCEEDED: "raise the deadline and create the sweep again: it goes on from the store",
    Reason.MAX_FAILED_TRIALS: "`trainsweep logs {name}` has the error of each trial",
    Reason.VERIFICATION_TIMED_OUT: "mend the access and run `trainsweep verify {name}`",
    Reason.CHECKPOINTS_MISSING: "look for a lifecycle rule or another writer below the run's prefix, "
    "then run `trainsweep verify {name}`",
    Reason.PERMANENT_FAILURE: "no further attempt mends this: correct it and create the sweep again",
    Reason.KUBERAY_REFUSED: "correct the spec and create the sweep again",
}
"""By the reason of the end; the messages of all others have their cure in their words."""


def with_cure(reason: Reason, message: str, name: str, checkpoints: CheckpointsStatus, limit: int) -> str:
    """The message of a sweep that has failed, and what to do about it.

    Args:
        reason: of the end.
        message: what happened.
        name: of the sweep.
        checkpoints: what is known of them; where no file is missing no cure for missing ones is told.
        limit: characters that the whole may have; what happened is cut first.
    """
    cure = _CURES.get(reason, "")
    if not cure or (reason is Reason.CHECKPOINTS_MISSING and not checkpoints.missing):
        return message
    told = f"; {cure.format(name=name)}."
    return short(message.rstrip(".: "), limit - len(told)) + told
