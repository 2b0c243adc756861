"""What this process remembers of a sweep between passes. Losing it costs a read or a write more, never a decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

    seen: dict[SweepKey, Any] = field(default_factory=dict)
    """What a full observation saw of a sweep whose attempt runs without trouble; gone with its first event."""
    unchanged: dict[SweepKey, object] = field(default_factory=dict)
    """A token by observation, taken away by an event: what was read before it must not be kept after it."""

    def changed(self, key: SweepKey) -> None:
        """Something of the sweep's has changed: what was seen of it is not to be used again."""
        self.seen.pop(key, None)
        self.unchanged.pop(key, None)

    def forget(self, key: SweepKey) -> None:
        """The sweep is gone."""
        for kept in (self.status_written, self.refusals, self.conflicts, self.states):
            kept.pop(key, None)
        self.changed(key)
