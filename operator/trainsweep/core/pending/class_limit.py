"""Layer ClassLimit: what the class has left for another sweep, as the last pass of the operator found it."""

from __future__ import annotations

from trainsweep.api.pending import Layer, Why
from trainsweep.core.pending.situation import Answer, Finding, Situation


def look(seen: Situation) -> Answer:
    """Only the operator sees all sweeps of a class: it says so in `status.pending`."""
    told = seen.status.pending
    why = next((w for w in Why if told is not None and w == told.reason), None)
    if told is None or why is None or told.layer != Layer.CLASS:
        return None
    cure = "ask the platform team to raise limits.gpuHours" if why is Why.GPU_HOURS_SPENT else ""
    return Finding(Layer.CLASS, why, told.message, cure, passing=not cure)
