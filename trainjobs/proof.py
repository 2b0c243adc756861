"""Proof: receipt, verdict, mending, until the owed checkpoints are proven or cannot be; then retention."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from trainjobs import leftovers, mend
from trainjobs.export import export
from trainjobs.outcome import GOOD, DriverError
from trainjobs.patience import patiently
from trainjobs.pulse import Pulse
from trainjobs.records import FINAL, Records
from trainjobs.settle import Damage, Settlement, best_trial, settle, write_receipt
from trainjobs.store import Store
from trainjobs.sweep import Sweep
from trainsweep.contract.documents import Outcome, Phase, Verdict
from trainsweep.contract.owed import Require

logger = logging.getLogger(__name__)

End = tuple[Outcome, str, str]
"""Outcome, reason and message of an attempt."""


class Proof:
    """The last act of an attempt. `round_` runs Tune once more over trials with a target epoch each."""

    def __init__(
        self,
        sweep: Sweep,
        store: Store,
        records: Records,
        pulse: Pulse,
        round_: Callable[[str, list[int], dict[int, int]], End],
    ) -> None:
        self._sweep, self.store, self.records, self.pulse, self._round = sweep, store, records, pulse, round_
        self.verified = False
        self.owed: int | None = None
        """Checkpoints that the newest receipt lists."""
        self.digest = ""
        """Of the newest receipt."""
        self.lost: list[str] = []
        """Files that are missing for good."""
        self._sequence = 0
        self._mends: Counter[str] = Counter()

    def run(self, outcome: Outcome, reason: str, message: str) -> End:
        """Proves what is owed after the training ended like this; returns how the attempt ends."""
        while True:
            self.pulse.receipt_digest = None
            self.pulse.enter(Phase.SETTLING)
            patiently("writing the record", self.records.flush)
            settlement = patiently("the settlement", partial(settle, self.store, self._sweep, self.records, outcome))
            self.pulse.best = best_trial(settlement.states, self.records, self._sweep.mode)
            damaged = list(settlement.damaged)
            if not damaged or not self._mendable(damaged, outcome):
                damaged += self._ask(settlement, outcome, reason, message)
                if not damaged:
                    break
                if not self._mendable(damaged, outcome):
                    stop = self.pulse.stop
                    if outcome in GOOD and stop is not None and stop.outcome is Outcome.STOPPED:
                        files = ", ".join(sorted({str(d) for d in damaged}))
                        return stop.outcome, stop.reason, f"stopped before these could be trained again: {files}"
                    self.lost = sorted({str(d) for d in damaged})
                    message = f"not in the store as the receipt says: {', '.join(self.lost)}"
                    break
            outcome, reason, message = self._mend(damaged, outcome, reason, message)
            if self.lost:
                message = f"lost, and training it again failed: {', '.join(self.lost)}"
                break
        if self.verified and outcome in GOOD:
            self._export(settlement)
            self._retain()
        if self.verified:
            leftovers.clear(self.store, self._sweep, self.records, settlement.states)
        return outcome, reason, message

    def _ask(self, settlement: Settlement, outcome: Outcome, reason: str, message: str) -> list[Damage]:
        """Writes a receipt and waits for the operator's second look; returns what it found missing."""
        self._sequence += 1
        _, digest = patiently(
            "writing the receipt",
            lambda: write_receipt(
                self.store,
                self._sweep,
                self.records,
                settlement,
                sequence=self._sequence,
                outcome=outcome,
                reason=reason,
                message=message,
            ),
        )
        self.owed, self.digest = len(settlement.owed), digest
        if not settlement.owed:
            self.verified = self._sweep.spec.checkpoints.require is Require.NONE
            return []
        if settlement.damaged:
            return []  # nothing to ask: our own look says that it is damaged, and it cannot be mended
        self.pulse.receipt_digest = digest
        self.pulse.enter(Phase.WAITING_FOR_VERDICT)
        verdict = self._wait_for_verdict(digest)
        if verdict is None:
            logger.warning("no verdict in time: the operator looks later, while the cluster is held")
            return []
        self.verified = verdict.result == "Persisted"
        logger.info("verdict: %s", verdict.result)
        found = [Damage(m.trial, m.checkpoint, m.file, m.problem) for m in verdict.missing]
        if verdict.result == "Missing" and not found:
            owed = settlement.owed[0]
            found = [Damage(owed.trial, owed.checkpoint, "*", "Absent")]
        return found

    def _wait_for_verdict(self, digest: str) -> Verdict | None:
        end = time.monotonic() + self._sweep.spec.checkpoints.verify.timeout_seconds
        while time.monotonic() < end:
            if self.pulse.fenced is not None:
                raise self.pulse.fenced
            verdict = self.pulse.verdict
            if verdict is not None and verdict.receipt_digest == digest:
                return verdict
            time.sleep(0.2)
        return None

    def _mendable(self, damaged: list[Damage], outcome: Outcome) -> bool:
        """Whether training again may help: a stop leaves no time for it, and retries are finite."""
        if outcome not in GOOD or self.pulse.stop is not None:
            return False
        known = {r.trial for r in self.records}
        retries = self._sweep.spec.failure_policy.trial_retries
        return all(d.trial in known and self._mends[d.trial] < retries for d in damaged)

    def _mend(self, damaged: list[Damage], outcome: Outcome, reason: str, message: str) -> End:
        trials = {d.trial for d in damaged}
        logger.warning("mending: %s", ", ".join(str(d) for d in damaged))
        self.verified = False
        self.pulse.receipt_digest = None
        self.pulse.enter(Phase.MENDING, ", ".join(sorted(trials)))
        before = {r.index: r for r in self.records if r.trial in trials}
        for index, record in before.items():
            keys = {d.checkpoint for d in damaged if d.trial == record.trial}
            patiently("mending", partial(mend.rewind, self.store, self._sweep, record, keys))
            self.records.update(index, state="Running")
            self._mends[record.trial] += 1
        targets = {index: record.step for index, record in before.items()}
        name = f"{self._sweep.file.attempt_id}-mend-{sum(self._mends.values())}"
        new_outcome, new_reason, new_message = self._round(name, list(before), targets)
        for index, record in before.items():
            now = self.records.get(index)
            if now is not None and now.state == "Failed" and record.state != "Failed":
                # Without this a worse checkpoint of another trial would take the lost one's place in silence.
                self.lost += sorted({str(d) for d in damaged if d.trial == record.trial})
            if now is not None and now.state in FINAL:
                self.records.update(index, state=record.state)
        if self.pulse.stop is not None:
            return new_outcome, new_reason, new_message
        return outcome, reason, message

    def _export(self, settlement: Settlement) -> None:
        if not self._sweep.file.export_uri or self.pulse.stop is not None:
            return
        self.pulse.enter(Phase.EXPORTING, self._sweep.file.export_uri)
        try:
            export(self.store, self._sweep, self.records, settlement)
        except DriverError as error:
            logger.error("the export: %s", error.message)  # the operator says that there is no word of it

    def _retain(self) -> None:
        keep = self._sweep.spec.checkpoints.retention.keep_trials
        if keep is None or self._sweep.spec.checkpoints.require is not Require.BEST_TRIAL:
            return
        best = self.pulse.best
        sign = -1 if self._sweep.mode == "Maximize" else 1
        ranked = sorted(
            (r for r in self.records if r.state in FINAL),
            key=lambda r: (
                best is None or r.trial != best.trial,  # the proven one stays, whatever the ranking says
                r.best_value is None,
                sign * (r.best_value or 0.0),
                r.index,
            ),
        )
        try:
            gone = mend.retire(self.store, self._sweep, ranked, keep)
            logger.info("retention: %d trial(s) lost their checkpoints", gone)
        except DriverError as error:
            logger.warning("retention: %s", error.message)  # what stays too long breaks no promise
