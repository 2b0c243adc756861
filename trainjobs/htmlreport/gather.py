"""The facts of a report, from what the driver holds in memory."""

from __future__ import annotations

import time

from trainjobs.htmlreport.facts import Facts
from trainjobs.proof import Proof
from trainjobs.pulse import Pulse
from trainjobs.records import Records
from trainjobs.sweep import Sweep
from trainsweep.contract.documents import End


def facts_of(sweep: Sweep, records: Records, pulse: Pulse, proof: Proof | None, end: End | None) -> Facts | None:
    """How the run stands now; None before the first trial."""
    known = list(records)
    if not known and end is None:
        return None
    looked = ""
    if proof is not None and (proof.verified or proof.lost):
        looked = "Missing" if proof.lost else "Persisted"
    return Facts(
        sweep=sweep,
        records=known,
        written_at=time.time(),
        best=pulse.best_now(),
        phase=pulse.phase.value,
        outcome=end.outcome.value if end is not None else "",
        reason=end.reason if end is not None else "",
        message=end.message if end is not None else pulse.message,
        proof=looked,
        receipt_digest=proof.digest if proof is not None else "",
        owed=proof.owed if proof is not None else None,
        eta_seconds=pulse.eta(),
    )
