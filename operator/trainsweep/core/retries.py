"""Retry budgets over attempts: finite, booked before the relaunch, 0 means 0."""

from __future__ import annotations

from trainsweep.api.spec import FailurePolicy
from trainsweep.api.status import RetriesStatus, RetryStatus
from trainsweep.core.ends import EndClass

_FIELDS = {
    EndClass.APPLICATION: "application",
    EndClass.INFRASTRUCTURE: "infrastructure",
    EndClass.EVICTION: "eviction",
    EndClass.STARTUP: "startup",
}
MAX_ATTEMPTS = 999


def with_limits(retries: RetriesStatus, policy: FailurePolicy) -> RetriesStatus:
    """The same counters with the limits that the spec has now (they may be raised while running)."""
    return RetriesStatus(
        **{
            # Never below what is used: the class's default may have been lowered meanwhile.
            name: RetryStatus(
                used=getattr(retries, name).used, limit=max(getattr(retries, name).used, getattr(policy.attempts, name))
            )
            for name in _FIELDS.values()
        }
    )


def book(retries: RetriesStatus, end_class: EndClass) -> RetriesStatus | None:
    """The counters with one more retry booked to the class; None where its limit does not allow one."""
    name = _FIELDS.get(end_class)
    if name is None:
        return None
    counter: RetryStatus = getattr(retries, name)
    if counter.used >= counter.limit:
        return None
    return retries.model_copy(update={name: counter.model_copy(update={"used": counter.used + 1})})


def backoff_seconds(policy: FailurePolicy, attempt: int) -> float:
    """Pause after the given attempt: doubles from initialSeconds up to maxSeconds."""
    return float(min(policy.backoff.max_seconds, policy.backoff.initial_seconds * 2 ** min(attempt - 1, 20)))
