"""The sweep's own record of its trials, kept in `trials.jsonl`: what was proposed, how far it came, how it ended.

This record, not Tune's pickles, is what a later attempt continues from (docs/decisions). S3 cannot append, so the whole
file is written anew; a proposal is in the store before its trial starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

from pydantic import ValidationError

from trainjobs.outcome import DriverError
from trainjobs.proposals import FINAL as FINAL
from trainjobs.store import Store
from trainjobs.sweep import Sweep, trial_name
from trainsweep.contract import layout
from trainsweep.contract.documents import MAX_HISTORY, FailureReason, TrialCounts, TrialRecord
from trainsweep.contract.owed import better

CURVE_POINTS = 40_000
"""Points of all learning curves together: about 1 MB of a file that is written whole."""


def parse_records(text: bytes) -> list[TrialRecord]:
    """The trials of a `trials.jsonl` in the order of their indices; the last line of an index wins.

    Raises:
        ValueError: for a line that is no record, with its number.
    """
    found: dict[int, TrialRecord] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = TrialRecord.model_validate_json(line)
        except ValidationError as error:
            raise ValueError(f"line {number}: {error.errors()[0]['msg']}") from None
        found[record.index] = record
    return [found[i] for i in sorted(found)]


def thinned(points: list[tuple[int, float]], limit: int) -> list[tuple[int, float]]:
    """At most `limit` points: those go first that lie closest between their neighbours, never the first or the last."""
    kept = list(points)
    while len(kept) > max(limit, 2):
        del kept[min(range(1, len(kept) - 1), key=lambda i: kept[i + 1][0] - kept[i - 1][0])]
    return kept


class Listener(Protocol):
    """Is told of changes, under the records' lock: it must be quick and must not raise."""

    def changed(self, old: TrialRecord, new: TrialRecord) -> None:
        """A record has changed."""

    def reported(self, record: TrialRecord, metrics: dict[str, float]) -> None:
        """A report of a trial, with all its numbers."""


class Records:
    """All known trials by index. Thread-safe: the heartbeat reads while Tune's callbacks write."""

    def __init__(self, store: Store, sweep: Sweep) -> None:
        self._store, self._sweep = store, sweep
        self._lock = threading.RLock()
        self._by_index: dict[int, TrialRecord] = {}
        self._dirty = False
        self.listener: Listener | None = None
        self._texts: dict[int, tuple[TrialRecord, bytes]] = {}
        self._points = min(MAX_HISTORY, max(4, CURVE_POINTS // max(1, sweep.count)))

    def load(self) -> None:
        """Reads what earlier attempts recorded and checks that it belongs to this sweep's configuration."""
        text = self._store.get(layout.TRIALS)
        if text is None:
            return
        try:
            found = parse_records(text)
        except ValueError as error:
            raise DriverError(
                FailureReason.INVALID_SWEEP, f"{layout.TRIALS} of the run cannot be read: {error}"
            ) from None
        for record in found:
            if record.config_hash != self._sweep.hash(record.parameters):
                raise DriverError(
                    FailureReason.INVALID_SWEEP,
                    f"{record.trial} was recorded with another configuration: the run's prefix holds another sweep. "
                    "Set another spec.runKey",
                )
            self._by_index[record.index] = record

    def __iter__(self) -> Iterator[TrialRecord]:
        """The records in the order of their indices."""
        with self._lock:
            return iter([self._by_index[i] for i in sorted(self._by_index)])

    def get(self, index: int) -> TrialRecord | None:
        """The record of an index."""
        with self._lock:
            return self._by_index.get(index)

    def propose(self, index: int, parameters: dict[str, Any], told: int = 0) -> TrialRecord:
        """Records a proposal and writes it before anybody can act on it.

        Args:
            index: of the trial.
            parameters: of the trial.
            told: results that the search knew.
        """
        record = TrialRecord(
            index=index,
            trial=trial_name(index),
            state="Proposed",
            parameters=parameters,
            config_hash=self._sweep.hash(parameters),
            told=told,
            attempt_id=self._sweep.file.attempt_id,
        )
        with self._lock:
            self._by_index[index] = record
            self._dirty = True
        self.flush()
        return record

    def update(self, index: int, **changes: Any) -> TrialRecord:
        """Changes a record in memory; `flush` writes it."""
        with self._lock:
            if changes.get("state") in FINAL and self._by_index[index].ended_at is None:
                changes.setdefault("ended_at", round(time.time(), 3))
            record = self._by_index[index].model_copy(update={**changes, "attempt_id": self._sweep.file.attempt_id})
            old = self._by_index[index]
            if record != old:
                self._by_index[index] = record
                self._dirty = True
                if self.listener is not None:
                    self.listener.changed(old, record)
            return record

    def report(self, index: int, step: int, value: float, **changes: Any) -> TrialRecord:
        """Notes a committed report of a running trial.

        Args:
            index: of the trial.
            step: the reported epoch.
            value: the objective.
            changes: other fields; `metrics` are kept with the best value only.
        """
        with self._lock:
            old, step = self._by_index[index], max(step, 0)
            metrics = changes.pop("metrics", {})
            if old.best_value is None or better(value, old.best_value, self._sweep.mode):
                changes |= {"best_value": value, "best_step": step, "metrics": metrics}
            # A try that goes on from a checkpoint reports some epochs once more: the curve goes on from there, too.
            curve = [*(p for p in old.history if p[0] < step), (step, float(f"{value:.9g}"))]
            changes["history"] = thinned(curve, self._points)
            record = self.update(index, state="Running", step=step, value=value, **changes)
            if self.listener is not None:
                self.listener.reported(record, {self._sweep.metric: value, **metrics})
            return record

    def flush(self) -> None:
        """Writes the file if something changed."""
        with self._lock:
            if not self._dirty:
                return
            lines = [self._text(r) for r in self]
            # Under the lock: an older text must never overwrite a newer one.
            self._store.put(layout.TRIALS, b"\n".join(lines) + b"\n")
            self._dirty = False

    def _text(self, record: TrialRecord) -> bytes:
        """A record's line; those of trials that did not change are not made anew."""
        known = self._texts.get(record.index)
        if known is None or known[0] is not record:
            known = self._texts[record.index] = (record, record.to_json())
        return known[1]

    def counts(self) -> TrialCounts:
        """Trials by state; what was never proposed is pending."""
        with self._lock:
            states = [r.state for r in self._by_index.values()]
        running = states.count("Running")
        final = sum(s in FINAL for s in states)
        return TrialCounts(
            expected=self._sweep.count,
            succeeded=states.count("Succeeded"),
            early_stopped=states.count("EarlyStopped"),
            failed=states.count("Failed"),
            running=running,
            pending=max(0, self._sweep.count - final - running),
        )

    def unfinished(self) -> list[int]:
        """Indices that have to run: recorded ones that are not final, then those that were never proposed."""
        with self._lock:
            return [
                i for i in range(self._sweep.count) if i not in self._by_index or self._by_index[i].state not in FINAL
            ]
