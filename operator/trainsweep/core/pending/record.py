"""From the chain to the status: `status.pending`, an Event where something needs a person, and images that never come."""

from __future__ import annotations

from dataclasses import replace

from trainsweep.api.conditions import Reason
from trainsweep.api.status import PendingStatus
from trainsweep.core.draft import Draft
from trainsweep.core.model import PodView
from trainsweep.core.pending.chain import Step, chain, lowest, unread
from trainsweep.core.pending.situation import Finding
from trainsweep.core.pending.spec import refused
from trainsweep.core.times import to_text

_NOT_FOUND = ("not found", "manifest unknown", "name unknown")
_NEVER = ("InvalidImageName", "ErrImageNeverPull")


def find_pending(draft: Draft) -> Finding | None:
    """The lowest unsatisfied layer of what this pass saw, None where nothing waits."""
    return lowest(_steps(draft))


def _steps(draft: Draft) -> tuple[Step, ...]:
    seen = draft.observed.situation
    # The status as it is by now: an admission that was refused may be granted in this pass.
    return chain(replace(seen, status=draft.status)) if seen is not None else ()


def never_starts(pods: tuple[PodView, ...]) -> PodView | None:
    """A pod whose image can never be pulled, whatever the time."""
    return next((p for p in pods if p.problem_reason in _NEVER), None)


def image_not_found(pods: tuple[PodView, ...]) -> PodView | None:
    """A pod whose registry says that there is no such image: it may only not be there yet."""
    return next(
        (p for p in pods if p.problem_layer == "Image" and any(w in p.problem_message for w in _NOT_FOUND)), None
    )


def record_pending(draft: Draft, found: Finding | None) -> None:
    """Puts it into the status; `since` stays while layer and reason stay. A new reason that stays away is an Event."""
    old = draft.before.pending
    if found is None:
        draft.set(pending=None)
        return
    same = old is not None and (old.layer, old.reason) == (found.layer, found.reason)
    since = old.since if same and old is not None else to_text(draft.now)
    message = "; ".join([found.words, *unread(_steps(draft))])[:1024]
    draft.set(pending=PendingStatus(layer=found.layer, reason=found.reason, message=message, since=since))
    if not same and not found.passing:
        draft.event(Reason.WAITING, f"{found.layer}: {found.reason}: {found.words}", "Warning")


def record_refusal(draft: Draft, reason: Reason, message: str) -> None:
    """Layer Spec: what was written is refused. Its condition says so too, and is its Event's place."""
    old, found = draft.before.pending, refused(reason, message)
    same = old is not None and (old.layer, old.reason) == (found.layer, found.reason)
    since = old.since if same and old is not None else to_text(draft.now)
    draft.set(pending=PendingStatus(layer=found.layer, reason=found.reason, message=found.words[:1024], since=since))
