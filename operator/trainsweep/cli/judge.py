"""The operator's part beside a local driver: read progress, take the second look, answer on the control file.

The look is the operator's own (`runtime.verify`) and so is the translation to a verdict (`core.verification`).
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import Control, Phase, Progress, StopRequest, SweepRef, Verdict
from trainsweep.core.model import ExportLook, Proof, Settlement
from trainsweep.core.verification import verdict_of
from trainsweep.runtime.documents_reader import read_progress
from trainsweep.runtime.export_look import look_at_export
from trainsweep.runtime.inventory import look as second_look
from trainsweep.runtime.store import Store, StoreError
from trainsweep.runtime.verify import Target, in_thread

RELOOK_SECONDS = 5.0
INVENTORY_APART = 2.0
"""Seconds between two listings: here the driver is gone, so nothing is in flight."""
PROBLEM_SECONDS = 30.0
"""How long an unreadable heartbeat is not worth a word: the first one comes when Python has started."""


def target_of(sweep: SweepRef, attempt_id: str, spec: TrainSweepSpec) -> Target:
    """Whose checkpoints are looked at, and how, as the spec says."""
    return Target(
        sweep=sweep,
        attempt_id=attempt_id,
        metric=spec.objective.metric,
        mode=spec.objective.mode.value,
        require=spec.checkpoints.require,
        depth=spec.checkpoints.verify.depth,
    )


def look(store: Store, target: Target, digest: str = "", *, inventory: bool = False) -> Settlement:
    """One second look; it never raises. With `inventory` a run without a receipt is listed instead."""
    return asyncio.run(
        second_look(store, target, digest=digest, inventory=inventory, run=in_thread, apart=INVENTORY_APART)
    )


def look_at_copy(store: Store, copies: Store, target: Target) -> ExportLook:
    """One look at an export; it never raises."""
    return asyncio.run(look_at_export(store, copies, target, in_thread))


@dataclass
class Judge:
    """What is known of a running local attempt, and what was answered."""

    store: Store
    target: Target
    control_file: Path
    progress: Progress | None = None
    settlement: Settlement | None = None
    problem: str = ""
    """Why the heartbeat cannot be read, once that lasts."""
    _stop: StopRequest | None = None
    _verdict: Verdict | None = None
    _answered: set[str] = field(default_factory=set)
    _next_look: float = 0.0
    _unread_since: float | None = None

    def poll(self) -> None:
        """One pass: reads the heartbeat; looks and answers where the driver waits."""
        now = time.monotonic()
        try:
            found = read_progress(self.store)
        except StoreError as error:
            self._unread_since = self._unread_since or now
            if now - self._unread_since > PROBLEM_SECONDS:
                self.problem = str(error)
            return
        self._unread_since, self.problem = None, ""
        if found.attempt_id != self.target.attempt_id:
            return  # an earlier attempt's last word
        self.progress = found
        digest = found.receipt_digest
        if (
            found.phase is not Phase.WAITING_FOR_VERDICT
            or not digest
            or digest in self._answered
            or now < self._next_look
        ):
            return
        self.settlement = look(self.store, self.target, digest)
        self._next_look = time.monotonic() + RELOOK_SECONDS
        verdict = verdict_of(self.settlement)
        if verdict is not None:
            self._answered.add(digest)
            self._verdict = verdict
            self._write()

    def final_look(self) -> Settlement:
        """The last settlement: what was proven while the driver waited, else a look now."""
        if self.settlement is None or self.settlement.proof is not Proof.PERSISTED:
            self.settlement = look(self.store, self.target, inventory=True)
        return self.settlement

    def ask_to_stop(self, reason: str, grace: int) -> None:
        """Says stop on the control file."""
        self._stop = StopRequest(reason=reason, grace_seconds=grace)
        self._write()

    def _write(self) -> None:
        """Swaps the file whole, as the kubelet does: the driver never reads half of it."""
        text = Control(attempt_id=self.target.attempt_id, stop=self._stop, verdict=self._verdict).to_json()
        temporary = self.control_file.with_suffix(".new")
        temporary.write_bytes(text)
        os.replace(temporary, self.control_file)
