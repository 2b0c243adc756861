"""What a report is made of: the sweep, its trials, and how far the run is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainjobs.sweep import Sweep
from trainsweep.contract.documents import Best, TrialRecord


@dataclass(frozen=True)
class Facts:
    """The input. Nothing here is trusted to be harmless text."""

    sweep: Sweep
    records: Sequence[TrialRecord]
    written_at: float
    """Unix seconds."""
    best: Best | None = None
    phase: str = ""
    outcome: str = ""
    """Empty while the run goes on."""
    reason: str = ""
    message: str = ""
    proof: str = ""
    """`Persisted` or `Missing` once the owed checkpoints were looked at twice; empty: not yet."""
    receipt_digest: str = ""
    owed: int | None = None
    """Checkpoints that the newest receipt lists."""
    eta_seconds: float | None = None
