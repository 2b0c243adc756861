"""Passes over a sweep that runs without trouble: its heartbeat is read anew, the rest is what was seen some seconds ago.

Nothing is ever decided on such a glance but that nothing is to be done: where it wants anything, all is read first.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from trainsweep.contract.layout import attempt_id
from trainsweep.core.model import ClusterView, HoldView, Observed, RayJobView
from trainsweep.runtime.access import Access, access_of
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.observe import ENDED

FRESH_SECONDS = 15.0
"""How old what is known of pods and hold may be: of those there are no events."""


@dataclass(frozen=True)
class Kept:
    """A full observation that may serve again."""

    at: float
    observed: Observed
    access: Access


class Glances:
    """Around a full `observe`: keeps what it saw of untroubled sweeps, until the first event of one of their objects."""

    def __init__(
        self,
        observe: Callable[[SweepKey], Awaitable[Observed | None]],
        looks: Looks,
        memory: Memory,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._observe, self._looks, self._memory, self._now = observe, looks, memory, now

    async def observe(self, key: SweepKey) -> Observed | None:
        """The full observation. An event that comes while it is made keeps it from being used again."""
        self._memory.changed(key)
        token = self._memory.unchanged[key] = object()
        found = await self._observe(key)
        if found is None or self._memory.unchanged.get(key) is not token or not untroubled(found):
            return found
        access = access_of(found.sweep, found.sweep_class)
        if isinstance(access, Access):
            self._memory.seen[key] = Kept(self._now(), found, access)
        return found

    async def glance(self, key: SweepKey) -> Observed | None:
        """What was seen last with a fresh heartbeat, None where that is old: one read of the store, none of the API."""
        kept = self._memory.seen.get(key)
        if not isinstance(kept, Kept) or self._now() - kept.at > FRESH_SECONDS:
            return None
        seen, sweep = kept.observed, kept.observed.sweep
        store = await self._looks.view(key, kept.access, attempt_id(sweep.status.attempt, sweep.uid), ended=False)
        if self._memory.seen.get(key) is not kept:
            return None
        return replace(seen, store=store, last_status_write=self._memory.status_written.get(key))


def untroubled(found: Observed) -> bool:
    """Whether an attempt runs, all its pods are well and nothing is asked of it: then only its heartbeat can be news."""
    status = found.sweep.status
    last = status.attempts[-1] if status.attempts else None
    if last is None or last.ready_at is None or last.ended_at is not None or last.stop_reason:
        return False
    if (
        found.sweep.deletion_requested_at is not None
        or found.class_error
        or found.refusal
        or status.pending is not None
    ):
        return False
    job, pods = found.ray_job, found.pods
    return (
        isinstance(job, RayJobView)
        and not job.deleting
        and not job.suspended
        and job.deployment_status not in ENDED
        and isinstance(found.cluster, ClusterView)
        and isinstance(found.hold, HoldView)
        and isinstance(pods, tuple)
        and bool(pods)
        and all(p.ready and not p.deleting and not p.problem_reason for p in pods)
    )
