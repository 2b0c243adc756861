"""The interface of a tracker. All its methods are called from one thread, and may raise whatever they like."""

from __future__ import annotations

from typing import Protocol

from trainsweep.contract.documents import TrialRecord


class Tracker(Protocol):
    """One service that shows trials."""

    name: str

    def begin(self, trial: TrialRecord) -> None:
        """A trial starts, or goes on after a restart: what is known of it there is continued."""

    def report(self, trial: TrialRecord, metrics: dict[str, float]) -> None:
        """A report of a trial at its `step`."""

    def end(self, trial: TrialRecord) -> None:
        """A trial has ended for good; its `state` says how."""

    def close(self) -> None:
        """Nothing more is told in this attempt; trials that have not ended may go on in a later one."""
