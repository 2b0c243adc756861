"""The line for a class's GPUs: first come, first served, from the statuses of its sweeps alone, without a lock.

A bakery: a sweep draws a ticket, one more than the highest that it sees, and writes it. In a later pass, with a list
made after that write, it starts if the GPUs of all who hold some, of all who wait before it, and its own fit the limit.
Who has no ticket yet is waited for. So of two sweeps that decide at the same time at least one sees the other, and the
one behind counts the one before it; nobody is passed over; and a crash between any two writes changes nothing.
Whoever left the line (refused, suspended, finished) draws anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import LineStatus, TrainSweepStatus
from trainsweep.core.draft import Draft, find_condition, is_true
from trainsweep.core.model import InLine, Unreadable
from trainsweep.core.pending.record import record_pending
from trainsweep.core.pending.situation import Finding
from trainsweep.plan.plan import plan

LOOK_AGAIN_SECONDS = 15.0
UNDECIDED_SECONDS = 1.0
HOUR = 3600
NAMED = 3


def may_start(draft: Draft, spec: TrainSweepSpec) -> bool:
    """Whether the class has GPUs and GPU-hours left for this sweep now; if not, the status says what it waits for.

    To be asked only where nothing else keeps the next attempt from its launch. A retry keeps the place of its sweep.
    """
    found = draft.observed.sweep_class
    if found is None:
        return True
    limits, others = found.spec.limits, draft.observed.line
    if limits.gpus is None and limits.gpu_hours is None:
        _leave(draft)
        return True
    if others is None or isinstance(others, Unreadable):
        why = others.message if isinstance(others, Unreadable) else "they were not read yet"
        return _wait(draft, Why.LINE_UNREADABLE, f"class {found.name}: its sweeps cannot be listed ({why})", True)
    if limits.gpu_hours is not None and not _hours_left(draft, found.name, limits.gpu_hours, others):
        return False
    if limits.gpus is None:
        _leave(draft)
        return True
    return _gpus_left(draft, spec, found.name, limits.gpus, others)


def _leave(draft: Draft) -> None:
    if draft.status.line is not None:
        draft.set(line=None)


def _hours_left(draft: Draft, name: str, limit: float, others: Iterable[InLine]) -> bool:
    space = draft.observed.sweep.namespace
    spent = draft.status.usage.gpu_seconds + sum(o.gpu_seconds for o in others if o.namespace == space)
    if spent < limit * HOUR:
        return True
    words = f"class {name}: {spent / HOUR:.1f} of {limit:g} GPU-hours of namespace {space} are spent"
    return _wait(draft, Why.GPU_HOURS_SPENT, words, False, "ask the platform team to raise limits.gpuHours")


def _gpus_left(draft: Draft, spec: TrainSweepSpec, name: str, limit: int, others: tuple[InLine, ...]) -> bool:
    gpus = plan(spec, gpu_limit=limit).max_gpus
    own = standing(draft.before)
    if own is not None and own.holds:
        return True
    if gpus == 0:
        draft.set(line=LineStatus(holds=True))
        return True
    holding = [o for o in others if o.holds]
    used = sum(o.gpus for o in holding)
    taken = f"{used} of {limit} GPUs in use" + (f" by {_names(o.name for o in holding)}" if holding else "")

    def wait(before: list[InLine]) -> bool:
        names = _names(o.name for o in before)
        ahead = f", {sum(o.gpus for o in before)} asked for by {names} before it" if before else ""
        place = f"{_ordinal(len(before) + 1)} in line of class {name}: {taken}{ahead}; it asks for {gpus}"
        return _wait(draft, Why.IN_LINE, place, True)

    if own is None or own.gpus != gpus:
        # Also who asks for more than before goes to the end: others have counted what it asked for.
        draft.set(line=LineStatus(ticket=1 + max((o.ticket for o in others), default=0), gpus=gpus))
        draft.wake(draft.now)
        return wait([o for o in others if o.waits])
    if undecided := [o.name for o in others if o.undecided]:
        draft.wake(draft.now + UNDECIDED_SECONDS)
        return _wait(draft, Why.IN_LINE, f"in line of class {name}: {_names(undecided)} came first, or just now", True)
    before = [o for o in others if o.waits and (o.ticket, o.uid) < (own.ticket, draft.observed.sweep.uid)]
    if used + sum(o.gpus for o in before) + gpus > limit:
        return wait(before)
    draft.set(line=own.model_copy(update={"holds": True}))
    return True


def standing(status: TrainSweepStatus) -> LineStatus | None:
    """The place that a stored status gives; none where others did not count this sweep: refused, suspended, at fault."""
    admitted, stalled = find_condition(status, Condition.ADMITTED), find_condition(status, Condition.STALLED)
    line = status.line
    if line is None or is_true(status, Condition.SUSPENDED):
        return None
    if line.holds:
        return line
    if admitted is None or admitted.status != "True":
        return None
    return None if stalled is not None and stalled.reason == Reason.INTERNAL_ERROR else line


def _wait(draft: Draft, why: Why, words: str, passing: bool, cure: str = "") -> bool:
    record_pending(draft, Finding(Layer.CLASS, why, words, cure, passing))
    draft.state(Reason.PENDING, words)
    draft.wake(draft.now + LOOK_AGAIN_SECONDS)
    return False


def keep_place(draft: Draft, spec: TrainSweepSpec) -> None:
    """A live attempt that holds GPUs without having drawn a ticket: its class got a limit while it ran."""
    found = draft.observed.sweep_class
    if found is None or found.spec.limits.gpus is None or draft.status.line is not None:
        return
    draft.set(line=LineStatus(gpus=plan(spec, gpu_limit=found.spec.limits.gpus).max_gpus, holds=True))


def _names(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"
