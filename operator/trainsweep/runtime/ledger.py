"""What the sweeps add up to, for Prometheus: by state and class, what waits where, GPU-seconds, how attempts ended.

Kept in memory and made from statuses, so that a restart begins anew and counts nothing twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from trainsweep.api.conditions import Condition
from trainsweep.api.pending import Layer
from trainsweep.api.status import TrainSweepStatus
from trainsweep.core.draft import find_condition, is_true
from trainsweep.core.model import Observed, Plan
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.metrics import Metrics

LONGEST = 600.0
"""A pause between two looks that is longer than this, such as a stopped process, is not counted as waiting."""


@dataclass(frozen=True)
class Entry:
    """One sweep, as last seen."""

    uid: str
    state: str
    class_name: str
    layer: str
    at: float
    gpu_seconds: int
    ended: int
    """Number of the newest attempt that has ended."""
    finished: bool
    holds: bool
    """It holds a place in its class: launched and not let go."""
    budget_used: float | None


class Ledger:
    """Adds up what the passes see."""

    def __init__(self, metrics: Metrics, now: Callable[[], float] = time.time) -> None:
        self._metrics, self._now = metrics, now
        self._entries: dict[SweepKey, Entry] = {}

    def saw(self, key: SweepKey, observed: Observed, plan: Plan) -> list[SweepKey]:
        """A pass is over and its plan carried out. Gives back who waits for what this sweep has let go."""
        status = plan.status or observed.sweep.status
        old, new = self._entries.get(key), self._entry(observed, status)
        self._entries[key] = new
        if old is None or old.uid != new.uid:
            return []
        if old.layer and 0 < new.at - old.at <= LONGEST:
            self._metrics.pending_seconds.labels(old.layer).inc(new.at - old.at)
        if new.gpu_seconds > old.gpu_seconds:
            used = new.gpu_seconds - old.gpu_seconds
            self._metrics.gpu_seconds.labels(observed.sweep.namespace, new.class_name).inc(used)
        for attempt in status.attempts:
            if attempt.number > old.ended and attempt.end_class:
                self._metrics.attempts.labels(new.class_name, attempt.end_class).inc()
        if new.finished and not old.finished:
            self._metrics.finished.labels(new.class_name, new.state).inc()
        return self._in_line(new.class_name) if old.holds and not new.holds else []

    def forget(self, key: SweepKey) -> list[SweepKey]:
        """The sweep is gone. Gives back who waits for what it held."""
        old = self._entries.pop(key, None)
        return self._in_line(old.class_name) if old is not None and old.holds else []

    def _in_line(self, class_name: str) -> list[SweepKey]:
        return [k for k, e in self._entries.items() if e.layer == Layer.CLASS and e.class_name == class_name]

    def expose(self) -> None:
        """Sets the gauges; called before each exposition."""
        metrics = self._metrics
        metrics.sweeps.clear()
        metrics.pending.clear()
        metrics.budget_used.clear()
        for (state, name), number in Counter((e.state, e.class_name) for e in self._entries.values()).items():
            metrics.sweeps.labels(state, name).set(number)
        for layer, number in Counter(e.layer for e in self._entries.values() if e.layer).items():
            metrics.pending.labels(layer).set(number)
        for key, entry in self._entries.items():
            if entry.budget_used is not None and not entry.finished:
                metrics.budget_used.labels(key.namespace, key.name).set(entry.budget_used)

    def _entry(self, observed: Observed, status: TrainSweepStatus) -> Entry:
        state = find_condition(status, Condition.SUCCEEDED)
        found = observed.sweep_class
        return Entry(
            uid=observed.sweep.uid,
            state=state.reason if state else "New",
            class_name=status.resolved.class_name or (found.name if found else ""),
            layer=status.pending.layer if status.pending else "",
            at=self._now(),
            gpu_seconds=status.usage.gpu_seconds,
            ended=max((a.number for a in status.attempts if a.end_class), default=0),
            finished=is_true(status, Condition.FINISHED),
            holds=_holds(status),
            budget_used=_used(observed, status),
        )


def _holds(status: TrainSweepStatus) -> bool:
    live = bool(status.attempts) and status.attempts[-1].gone_at is None
    place = status.line is not None and status.line.holds and not is_true(status, Condition.FINISHED)
    return live or place


def _used(observed: Observed, status: TrainSweepStatus) -> float | None:
    """Share of the GPU budget that is used, None where nothing bounds it."""
    hours = [
        h
        for h in (
            _number(observed.sweep.spec.get("budget")),
            observed.sweep_class.spec.limits.gpu_hours if observed.sweep_class else None,
        )
        if h
    ]
    return status.usage.gpu_seconds / (min(hours) * 3600) if hours else None


def _number(budget: object) -> float | None:
    value = budget.get("gpuHours") if isinstance(budget, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
