"""What this process remembers of a sweep between passes. Losing it costs a read or a write more, never a decision."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainsweep.runtime.keys import SweepKey


@dataclass
class Memory:
    """By sweep; forgotten when the sweep is gone."""

    status_written: dict[SweepKey, float] = field(default_factory=dict)
    """Unix seconds of our last status write."""
    refusals: dict[SweepKey, str] = field(default_factory=dict)
    """What the API server said when it refused our last attempt to create something for the sweep."""
    conflicts: dict[SweepKey, int] = field(default_factory=dict)
    """Conflicts in a row."""
    states: dict[SweepKey, str] = field(default_factory=dict)
    """Reason of condition Succeeded, for the metrics."""

    def forget(self, key: SweepKey) -> None:
        """The sweep is gone."""
        for kept in (self.status_written, self.refusals, self.conflicts, self.states):
            kept.pop(key, None)
