"""From a schedule that fails to the smallest one that fails in the same way, by leaving out events (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tests.simulation.driver import Behaviour
from tests.simulation.faults import Odds
from tests.simulation.life import Failed, simulate
from tests.simulation.schedule import Schedule

T = TypeVar("T")
ODDS = ("crash", "error", "lost_reply", "conflict", "late", "slow")


def failure(schedule: Schedule) -> Failed | None:
    """How a schedule fails."""
    try:
        simulate(schedule)
    except Failed as failed:
        return failed
    return None


def smallest(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of the items that still fails, of which no single one can be left out."""
    left, size = list(items), max(1, len(items) // 2)
    while left:
        for start in range(0, len(left), size):
            without = left[:start] + left[start + size :]
            if fails(without):
                left = without
                break
        else:
            if size == 1:
                break
            size = max(1, size // 2)
    return left


def shrunk(schedule: Schedule) -> Schedule:
    """The smallest schedule found that fails as this one does; the schedule itself, if it does not fail."""
    first = failure(schedule)
    if first is None:
        return schedule
    what = first.what
    best = schedule

    def same(**changes: Any) -> bool:
        found = failure(replace(best, **changes))
        return found is not None and found.what == what

    def attempt(**changes: Any) -> None:
        nonlocal best
        if same(**changes):
            best = replace(best, **changes)

    attempt(odds=Odds())
    attempt(lost_watch=0.0)
    attempt(skew=0.0)
    attempt(behaviours={})
    best = replace(best, actions=smallest(best.actions, lambda items: same(actions=items)))
    best = replace(best, strikes=smallest(best.strikes, lambda items: same(strikes=items)))
    best = replace(best, aimed=smallest(best.aimed, lambda items: same(aimed=items)))
    for name in ODDS:
        if getattr(best.odds, name):
            attempt(odds=replace(best.odds, **{name: 0.0}))
    for number in list(best.behaviours):
        if best.behaviours[number] != Behaviour():
            attempt(behaviours={n: b for n, b in best.behaviours.items() if n != number})
    return best
