"""The plan while it is made: the status to be, the actions so far, the earliest wake-up.

It also holds the rule that keeps the API server quiet: what changed only in measured values is written at most every
30 seconds, what changed in meaning at once, what did not change never.
"""

from __future__ import annotations

from typing import Any, Literal

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.status import AttemptStatus, ConditionStatus, TrainSweepStatus
from trainsweep.core.cures import with_cure
from trainsweep.core.model import Action, EmitEvent, Observed, Plan, WriteStatus
from trainsweep.core.size import bounded
from trainsweep.core.times import to_text

SOFT_WRITE_SECONDS = 30.0
_MESSAGE_LIMIT = 1024


class Draft:
    """A plan in the making, for one observation at one moment."""

    def __init__(self, observed: Observed, now: float) -> None:
        self.observed = observed
        self.now = now
        self.before = observed.sweep.status
        self.status = observed.sweep.status
        self.ahead: list[Action] = []
        """Before the status write."""
        self.after: list[Action] = []
        """After the status write."""
        self.events: list[EmitEvent] = []
        self.wake_at: float | None = None
        self.require = ""
        """`checkpoints.require` of the resolved spec."""

    def wake(self, at: float | None) -> None:
        """Looks again not later than `at`."""
        if at is not None and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at

    def set(self, **changes: Any) -> None:
        """Replaces fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def event(self, reason: str, message: str, kind: str = "Normal") -> None:
        """An Event, sent after everything else."""
        self.events.append(EmitEvent(kind, str(reason), message[:_MESSAGE_LIMIT]))

    # ------------------------------------------------------------------ attempts

    @property
    def attempt(self) -> AttemptStatus | None:
        """The newest attempt."""
        return self.status.attempts[-1] if self.status.attempts else None

    def set_attempt(self, **changes: Any) -> None:
        """Replaces fields of the newest attempt."""
        last = self.status.attempts[-1].model_copy(update=changes)
        self.set(attempts=[*self.status.attempts[:-1], last])

    def stamp_attempt(self, field: str) -> None:
        """Sets a time of the newest attempt to now, if it is not set."""
        if getattr(self.status.attempts[-1], field) is None:
            self.set_attempt(**{field: to_text(self.now)})

    # ------------------------------------------------------------------ conditions

    def condition(self, kind: Condition, status: bool | None, reason: Reason, message: str = "") -> None:
        """Sets a condition; its transition time moves only with its status, compared with what was there before."""
        word: Literal["True", "False", "Unknown"] = "Unknown" if status is None else "True" if status else "False"
        old = find_condition(self.before, kind)
        when = old.last_transition_time if old and old.status == word else to_text(self.now)
        new = ConditionStatus(
            type=kind,
            status=word,
            observed_generation=self.observed.sweep.generation,
            last_transition_time=when,
            reason=reason,
            message=message[:_MESSAGE_LIMIT],
        )
        others = [c for c in self.status.conditions if c.type != kind]
        self.set(conditions=sorted([*others, new], key=lambda c: _ORDER.get(c.type, 99)))

    def drop_condition(self, kind: Condition) -> None:
        """Removes a condition that is absent unless it applies."""
        self.set(conditions=[c for c in self.status.conditions if c.type != kind])

    def state(self, reason: Reason, message: str = "") -> None:
        """The state of an active sweep: Succeeded and Ready Unknown with this reason, Finished False, Reconciling."""
        self.condition(Condition.FINISHED, False, reason, "")
        self.condition(Condition.SUCCEEDED, None, reason, message)
        self.condition(Condition.READY, None, reason, message)
        self.drop_condition(Condition.STALLED)
        self.drop_condition(Condition.SUSPENDED)
        self.condition(Condition.RECONCILING, True, reason, message)

    def stalled(self, reason: Reason, message: str) -> None:
        """Needs a person: Stalled instead of Reconciling."""
        self.condition(Condition.FINISHED, False, reason, "")
        self.condition(Condition.SUCCEEDED, None, reason, message)
        self.condition(Condition.READY, None, reason, message)
        self.drop_condition(Condition.RECONCILING)
        self.drop_condition(Condition.SUSPENDED)
        self.condition(Condition.STALLED, True, reason, message)

    def suspended(self, message: str) -> None:
        """At rest until somebody resumes it: neither Reconciling nor Stalled."""
        self.condition(Condition.FINISHED, False, Reason.SUSPENDED, "")
        self.condition(Condition.SUCCEEDED, None, Reason.SUSPENDED, message)
        self.condition(Condition.READY, None, Reason.SUSPENDED, message)
        self.drop_condition(Condition.RECONCILING)
        self.drop_condition(Condition.STALLED)
        self.condition(Condition.SUSPENDED, True, Reason.SUSPENDED, message)

    def finish(self, succeeded: bool, reason: Reason, message: str) -> None:
        """Terminal, latched: nothing of this is ever computed again."""
        if not succeeded:
            name = self.observed.sweep.name
            message = with_cure(reason, message, name, self.status.checkpoints, _MESSAGE_LIMIT)
        self.condition(Condition.FINISHED, True, reason, message)
        self.condition(Condition.SUCCEEDED, succeeded, reason, message)
        self.condition(Condition.READY, succeeded, reason, message)
        self.drop_condition(Condition.RECONCILING)
        self.drop_condition(Condition.SUSPENDED)
        if succeeded:
            self.drop_condition(Condition.STALLED)
        else:
            self.condition(Condition.STALLED, True, reason, message)
        self.set(finished_at=to_text(self.now), pending=None)
        self.event(reason, message or "The sweep has ended.", "Normal" if succeeded else "Warning")

    # ------------------------------------------------------------------ the result

    def plan(self) -> Plan:
        """The plan: what goes before the status, the status if it is to be written, what comes after, events."""
        self.set(observed_generation=self.observed.sweep.generation)
        if self.status != self.before:
            self.status = bounded(self.status)
        hard = _meaning(self.status) != _meaning(self.before)
        soft = self.status != self.before
        write = hard
        if soft and not hard:
            due = (self.observed.last_status_write or 0.0) + SOFT_WRITE_SECONDS
            write = self.now >= due
            if not write:
                self.wake(due)
        actions = [*self.ahead, *([WriteStatus(self.status)] if write else []), *self.after]
        return Plan((*actions, *(self.events if write else [])), self.wake_at)


_ORDER = {kind: place for place, kind in enumerate(Condition)}


def find_condition(status: TrainSweepStatus, kind: Condition) -> ConditionStatus | None:
    """The condition of that type, None where it is absent."""
    return next((c for c in status.conditions if c.type == kind), None)


def is_true(status: TrainSweepStatus, kind: Condition) -> bool:
    """Whether the condition is there and True."""
    found = find_condition(status, kind)
    return found is not None and found.status == "True"


_PASSING: dict[str, str] = {Reason.VERIFYING: Reason.RUNNING}
"""States that are said with the next write, but are not worth one of their own: the verdict follows within seconds."""


def _meaning(status: TrainSweepStatus) -> tuple[Any, ...]:
    """What must be written at once when it changes; the rest are measured values and words.

    Not in here, since it is seen again in every pass: the RayJob's uid, the first report and the startup deadline that
    ends with it, and that the trials are finished.
    """
    due = status.deadlines
    return (
        status.observed_generation,
        status.run,
        status.attempt,
        status.retries,
        (due.run, due.total, due.hold, due.deletion, due.retry),
        status.checkpoints.receipt_digest,
        status.checkpoints.verified,
        status.finished_at,
        status.line,
        tuple(
            (c.type, c.status, _PASSING.get(c.reason, c.reason))
            for c in status.conditions
            if c.type != Condition.TRIALS_FINISHED
        ),
        tuple(
            (a.number, a.spec_digest, a.stop_reason, a.ended_at, a.settled_at, a.released_at, a.gone_at)
            for a in status.attempts
        ),
    )
