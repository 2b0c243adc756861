"""reconcile(key): observe, decide, apply, and when to look again. Every error becomes an outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from trainsweep.api.conditions import Condition, Reason
from trainsweep.core.draft import Draft, find_condition, is_true
from trainsweep.core.model import Observed, Plan
from trainsweep.runtime.apply import RefusedError
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import Conflict, KubeError, Unavailable
from trainsweep.runtime.ledger import Ledger
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.workqueue import WorkQueue

_log = logging.getLogger(__name__)
SOON = 0.2
"""A wake-up is never nearer: a plan that is due at once must not spin."""
CONFLICTS = 5
"""Conflicts in a row after which a key backs off like any failure."""

Observe = Callable[[SweepKey], Awaitable[Observed | None]]
Decide = Callable[[Observed, float], Plan]
Apply = Callable[[Observed, Plan], Awaitable[None]]


class Reconciler:
    """One idempotent pass over one sweep."""

    def __init__(
        self,
        observe: Observe,
        decide: Decide,
        apply: Apply,
        queue: WorkQueue[SweepKey],
        looks: Looks,
        memory: Memory,
        metrics: Metrics,
        now: Callable[[], float] = time.time,
        glance: Observe | None = None,
    ) -> None:
        """A `glance` is an observation that may be some seconds old but for the heartbeat: None where there is none."""
        self._glance = glance
        self._observe, self._decide, self._apply = observe, decide, apply
        self._queue, self._looks, self._memory, self._metrics, self._now = queue, looks, memory, metrics, now
        self.ledger = Ledger(metrics, now)
        """What the passes add up to; one that is exposed is put in its place."""

    async def reconcile(self, key: SweepKey) -> None:
        """One pass. Never raises but for cancellation."""
        started = time.monotonic()
        outcome = "error"
        try:
            outcome = await self._pass(key)
        except Exception:
            # Only a fault in the handling of faults comes here.
            _log.exception("%s: pass failed", key)
            self._queue.retry(key)
        finally:
            self._metrics.reconciles.labels(outcome).inc()
            self._metrics.reconcile_seconds.observe(time.monotonic() - started)

    async def _pass(self, key: SweepKey) -> str:
        observed: Observed | None = None
        try:
            if self._glance is not None and await self._quiet(key, self._glance):
                return "quiet"
            observed = await self._observe(key)
            if observed is None:
                self._forget(key)
                return "gone"
            plan = self._decide(observed, self._now())
            await self._apply(observed, plan)
        except Conflict as error:
            return self._conflict(key, error)
        except KubeError as error:
            asked = error.retry_after if isinstance(error, Unavailable) else None
            pause = self._queue.retry(key, asked or 0.0)
            _log.warning("%s: %s: %s; again in %.1f s", key, type(error).__name__, error.message, pause)
            return type(error).__name__.lower()
        except RefusedError as error:
            _log.error("%s: refused before it was sent: %s", key, error)
            self._queue.retry(key)
            return "refused"
        except Exception as error:
            _log.exception("%s: internal error", key)
            self._queue.retry(key)
            if observed is not None:
                await self._tell(observed, error)
            return "internal"
        self._memory.conflicts.pop(key, None)
        self._memory.states[key] = _state(observed, plan)
        for waiting in self.ledger.saw(key, observed, plan):
            self._queue.add(waiting)
        self._queue.succeeded(key)
        if plan.wake_at is not None:
            self._queue.add_after(key, max(plan.wake_at - self._now(), SOON))
        return "ok"

    async def _quiet(self, key: SweepKey, glance: Observe) -> bool:
        """Whether a glance wants nothing done: then the pass ends there. What is done is always decided on a full look."""
        seen = await glance(key)
        if seen is None:
            return False
        plan = self._decide(seen, self._now())
        if plan.actions or plan.wake_at is None:
            return False
        self._queue.succeeded(key)
        self._queue.add_after(key, max(plan.wake_at - self._now(), SOON))
        return True

    def _forget(self, key: SweepKey) -> None:
        self._queue.drop(key)
        self._looks.forget(key)
        self._memory.forget(key)
        for waiting in self.ledger.forget(key):
            self._queue.add(waiting)

    def _conflict(self, key: SweepKey, error: Conflict) -> str:
        """Somebody else wrote: look again at once, with patience only when it goes on."""
        count = self._memory.conflicts[key] = self._memory.conflicts.get(key, 0) + 1
        _log.info("%s: changed meanwhile (%s)", key, error.message)
        if count > CONFLICTS:
            self._queue.retry(key)
        else:
            self._queue.add_after(key, SOON / 4)
        return "conflict"

    async def _tell(self, observed: Observed, error: Exception) -> None:
        """Says in the status that we failed; a terminal status is left alone."""
        if is_true(observed.sweep.status, Condition.FINISHED):
            return
        try:
            draft = Draft(observed, self._now())
            draft.stalled(
                Reason.INTERNAL_ERROR,
                f"The operator failed on this sweep ({type(error).__name__}: {error}); it tries again. See its log.",
            )
            await self._apply(observed, draft.plan())
        except Exception as again:
            _log.warning("could not tell of the internal error: %s", again)


def _state(observed: Observed, plan: Plan) -> str:
    found = find_condition(plan.status or observed.sweep.status, Condition.SUCCEEDED)
    return found.reason if found else "New"
