"""Arithmetic of the retry budgets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsweep.api.spec import Attempts, Backoff, FailurePolicy
from trainsweep.api.status import RetriesStatus
from trainsweep.core.ends import EndClass
from trainsweep.core.retries import backoff_seconds, book, with_limits

BOOKED = [EndClass.APPLICATION, EndClass.INFRASTRUCTURE, EndClass.EVICTION, EndClass.STARTUP]


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.sampled_from(list(EndClass)), max_size=40), st.integers(0, 5))
def test_no_counter_exceeds_its_limit_or_goes_back(ends: list[EndClass], limit: int) -> None:
    attempts = Attempts(application=limit, infrastructure=limit, eviction=limit, startup=limit)
    retries = with_limits(RetriesStatus(), FailurePolicy(attempts=attempts))
    for end in ends:
        after = book(retries, end)
        if after is None:
            continue
        for name in ("application", "infrastructure", "eviction", "startup"):
            assert getattr(retries, name).used <= getattr(after, name).used <= limit
        retries = after


@pytest.mark.parametrize("end", [EndClass.SUCCESS, EndClass.DEADLINE, EndClass.UNKNOWN])
def test_ends_without_a_budget_are_never_booked(end: EndClass) -> None:
    assert book(with_limits(RetriesStatus(), FailurePolicy()), end) is None


@pytest.mark.parametrize(("attempt", "pause"), [(1, 10), (2, 20), (3, 40), (4, 60), (30, 60), (999, 60)])
def test_pause_doubles_up_to_its_longest(attempt: int, pause: float) -> None:
    policy = FailurePolicy(backoff=Backoff(initial_seconds=10, max_seconds=60))
    assert backoff_seconds(policy, attempt) == pause
