"""Hands what happens to trials to the trackers, in a thread of its own, and keeps their faults away from the training."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence

from trainjobs.records import FINAL
from trainjobs.store import Store
from trainjobs.sweep import Sweep
from trainjobs.tracking.tracker import Tracker
from trainsweep.contract.documents import TrialRecord

logger = logging.getLogger(__name__)

QUEUE = 10_000
GIVE_UP = 5
"""Faults in a row after which a tracker is left alone."""

Event = tuple[str, TrialRecord, dict[str, float]]
Make = Callable[[Sweep, Store], Tracker]


def _mlflow(sweep: Sweep, store: Store) -> Tracker:
    from trainjobs.tracking.mlflow_runs import MLflowRuns

    return MLflowRuns(sweep)


def _tensorboard(sweep: Sweep, store: Store) -> Tracker:
    from trainjobs.tracking.tensorboard_files import TensorBoardFiles

    return TensorBoardFiles(sweep, store)


def _wandb(sweep: Sweep, store: Store) -> Tracker:
    from trainjobs.tracking.wandb_runs import WandbRuns

    return WandbRuns(sweep, store)


def wanted(sweep: Sweep) -> list[tuple[str, Make]]:
    """The trackers that the sweep asks for; nothing of them is imported yet."""
    tracking = sweep.spec.tracking
    if tracking is None:
        return []
    known: list[tuple[str, object, Make]] = [
        ("mlflow", tracking.mlflow, _mlflow),
        ("tensorboard", tracking.tensorboard, _tensorboard),
        ("wandb", tracking.wandb, _wandb),
    ]
    return [(name, make) for name, asked, make in known if asked is not None]


class _Guarded:
    """One tracker, started when it is first needed, left alone when it only fails."""

    def __init__(self, name: str, make: Make, sweep: Sweep, store: Store) -> None:
        self._name, self._make, self._sweep, self._store = name, make, sweep, store
        self._tracker: Tracker | None = None
        self._faults = 0

    @property
    def given_up(self) -> bool:
        return self._faults >= GIVE_UP

    def tell(self, what: str, trial: TrialRecord | None, metrics: dict[str, float]) -> None:
        if self.given_up or (trial is None and self._tracker is None):
            return
        try:
            if self._tracker is None:
                self._tracker = self._make(self._sweep, self._store)
            if trial is None:
                self._tracker.close()
            elif what == "begin":
                self._tracker.begin(trial)
            elif what == "report":
                self._tracker.report(trial, metrics)
            else:
                self._tracker.end(trial)
            self._faults = 0
        except ImportError as error:
            self._faults = GIVE_UP
            logger.warning(
                "tracking.%s: %s: install trainsweep[tracking] in the training image; the sweep goes on without it",
                self._name,
                error,
            )
        except (Exception, SystemExit) as error:
            self._faults += 1
            last = "; it is left alone from now on" if self.given_up else ""
            logger.warning("tracking.%s: %s: %s%s", self._name, type(error).__name__, str(error)[:300], last)


class Hub:
    """The thread. With no tracker asked for it does not even start."""

    def __init__(self, sweep: Sweep, store: Store, trackers: Sequence[tuple[str, Make]] | None = None) -> None:
        asked = wanted(sweep) if trackers is None else trackers
        self._trackers = [_Guarded(name, make, sweep, store) for name, make in asked]
        self._events: queue.Queue[Event | None] = queue.Queue(QUEUE)
        self._begun: set[int] = set()
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)
        if self._trackers:
            self._thread.start()

    def changed(self, old: TrialRecord, new: TrialRecord) -> None:
        """A record has changed. Called under the lock of the records: it only puts something into a queue."""
        if not self._trackers:
            return
        if new.state == "Running" and old.index not in self._begun:
            self._begun.add(new.index)
            self._put(("begin", new, {}))
        if new.state in FINAL and old.state not in FINAL:
            self._put(("end", new, {}))

    def reported(self, record: TrialRecord, metrics: dict[str, float]) -> None:
        """A report came in; see `changed`."""
        if self._trackers:
            self._put(("report", record, metrics))

    def _put(self, event: Event) -> None:
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._dropped += 1
            if self._dropped == 1:
                logger.warning("tracking is more than %d reports behind: some will be missing there", QUEUE)

    def close(self, seconds: float) -> bool:
        """Waits until all was told; returns whether it was in time."""
        if not self._trackers:
            return True
        end = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._events.put(None, timeout=seconds)
        self._thread.join(max(0.0, end - time.monotonic()))
        if self._thread.is_alive():
            logger.warning("tracking does not keep up: left after %.0f s", seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            for tracker in self._trackers:
                tracker.tell(*event)
        for tracker in self._trackers:
            tracker.tell("close", None, {})
