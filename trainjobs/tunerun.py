"""One run of Tune over the trials that are left: a searcher that replays or proposes, the record, and when to stop.

Tune keeps no truth here. Its state lies under `tune/<attempt>/` for a look afterwards; a later attempt starts a fresh
Tuner from `trials.jsonl` and Train's snapshots (docs/decisions).
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import ray.tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.result import AUTO_RESULT_KEYS
from ray.tune.search import Searcher

from trainjobs import board
from trainjobs.proposals import result_of
from trainjobs.records import FINAL, Records
from trainjobs.rooms import Rooms
from trainjobs.stopping import DriverOnly, EarlyStopper, Queue, StopRules, Watch, identity_of
from trainjobs.sweep import Sweep
from trainjobs.trial import KEY, TrialSetup, run_trial
from trainsweep.contract import layout
from trainsweep.contract.documents import MAX_METRICS, TrialRecord
from trainsweep.contract.snapshot import EPOCH

logger = logging.getLogger(__name__)


class RecordSearcher(DriverOnly, Searcher):
    """Hands out the trials that are left: recorded ones as they were, new ones after they were recorded."""

    def __init__(self, sweep: Sweep, records: Records, watch: Watch, indices: list[int]) -> None:
        super().__init__()
        self._sweep, self._records, self._watch = sweep, records, watch
        self._left = list(indices)

    def suggest(self, trial_id: str) -> Any:
        """See Searcher."""
        if not self._left or self._watch.stopping.is_set():
            return Searcher.FINISHED
        index = self._left.pop(0)
        record = self._records.get(index)
        if record is None:
            proposals = self._sweep.proposals
            record = self._records.propose(index, proposals.propose(index), proposals.told)
        identity = {"index": index, "trial": record.trial, "configHash": record.config_hash}
        return {KEY: identity, "parameters": dict(record.parameters)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the Recorder tells, once it is decided how the trial ended."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the record is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: see save."""


class Recorder(DriverOnly, ray.tune.Callback):
    """Writes down what happens to trials. Runs in the driver, between Tune's steps."""

    def __init__(
        self,
        sweep: Sweep,
        records: Records,
        watch: Watch,
        scheduler: Any,
        names: dict[str, int],
        board_handle: Any,
        root: str,
        committed: Callable[[int], bool],
        rooms: Rooms,
    ) -> None:
        self._rooms = rooms
        self._sweep, self._records, self._watch = sweep, records, watch
        self._scheduler, self._names, self._board = scheduler, names, board_handle
        self._root, self._committed = root.rstrip("/") + "/", committed
        self._started: dict[int, tuple[float, float]] = {}
        """Time of the start in this attempt, and the seconds that earlier attempts took."""

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """See Callback."""
        self._rooms.tick()

    def _notes(self, index: int, *, clear: bool = True) -> dict[str, str]:
        """What was noted about a trial whose try has ended."""
        notes: dict[str, str] = ray.get(self._board.notes.remote(index, clear=clear))
        self._rooms.ended(notes.get(board.RUN, ""))
        return notes

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback."""
        identity = identity_of(trial)
        self._names[trial.trial_id] = identity["index"]
        index, now = identity["index"], time.time()
        record = self._records.get(index)
        self._started.setdefault(index, (now, record.seconds if record is not None else 0.0))
        self._watch.active.add(index)
        self._watch.begin(index, record.seconds if record is not None else 0.0)
        first = record.started_at if record is not None and record.started_at is not None else now
        self._records.update(index, state="Running", started_at=first, ended_at=None)
        logger.info("%s started", identity["trial"])

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """See Callback."""
        index, value = identity_of(trial)["index"], result.get(self._sweep.metric)
        if value is None:
            return
        self._watch.reported[index] = time.monotonic()
        self._watch.last_step_at = time.time()
        if self._watch.first_report_at is None:
            self._watch.first_report_at = time.time()
        others = other_metrics(result, self._sweep.metric)
        taken = self._taken(index)
        record = self._records.report(index, int(result.get(EPOCH, 0)), float(value), metrics=others, **taken)
        path = str(result.get("checkpoint_path", "")).rstrip("/")
        if record.best_value == value and path.startswith(self._root):
            self._watch.checkpoints[index] = path.removeprefix(self._root)
        logger.info("%s epoch %s: %s = %.6g", record.trial, record.step, self._sweep.metric, value)

    def _taken(self, index: int) -> dict[str, float]:
        """How long the trial has held its workers, as a change to its record."""
        if index not in self._started:
            return {}
        start, before = self._started[index]
        return {"seconds": round(before + time.time() - start, 3)}

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """See Callback: what was ended in the midst has held its workers, too."""
        for index in list(self._started):
            self._records.update(index, **self._taken(index))
            self._notes(index, clear=False)

    def _ended(self, index: int) -> None:
        if index in self._started:
            self._records.update(index, **self._taken(index))
            self._watch.durations.append(time.time() - self._started.pop(index)[0])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback: the loop returned, or somebody decided that the trial is complete."""
        index = identity_of(trial)["index"]
        notes = self._notes(index)
        self._watch.active.discard(index)
        self._watch.begun.pop(index, None)
        record = self._records.get(index)
        if record is None or record.state in FINAL:
            return
        if board.FAILED in notes:
            self._failed(index, notes[board.FAILED])
        elif board.STOPPED in notes:
            self._records.update(index, **self._taken(index))
            logger.info("%s saved its state and waits for a later attempt", record.trial)
        elif index in getattr(self._scheduler, "stopped", ()):
            self._close(index, "EarlyStopped")
        elif record.best_value is None and not self._committed(index):
            late = "it reported nothing before deadlines.trialSeconds were over"
            silent = f"the loop ended without a report; expected: {self._sweep.metric}"
            self._failed(index, late if index in self._watch.timed_out else silent)
        else:
            self._close(index, "EarlyStopped" if index in self._watch.timed_out else "Succeeded")

    def _close(self, index: int, state: str) -> None:
        record = self._end(index, state)
        logger.info("%s %s at epoch %s", record.trial, state, record.step)

    def _end(self, index: int, state: str, **changes: Any) -> TrialRecord:
        """Notes a final state and tells the search, which numbers its results."""
        record = self._records.update(index, state=state, **changes)
        record = self._records.update(index, order=self._sweep.proposals.tell(index, result_of(record)))
        self._ended(index)
        return record

    def _failed(self, index: int, message: str) -> None:
        self._watch.active.discard(index)
        self._watch.begun.pop(index, None)
        record = self._end(index, "Failed", error=" ".join(message.split())[:1000])
        logger.warning("%s failed: %s", record.trial, record.error)
        limit = self._sweep.max_failed
        if limit is not None and self._records.counts().failed > limit:
            self._watch.too_many_failed = True
            self._watch.stop.set()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback."""
        index, error = identity_of(trial)["index"], " ".join(last_error(trial).split())[:1000]
        self._notes(index, clear=False)
        record = self._records.get(index)
        if record is not None:
            self._records.update(index, error=error, retries=record.retries + 1, **self._taken(index))
        logger.warning("%s failed and is tried again: %s", identity_of(trial)["trial"], error)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback: no retry is left."""
        index = identity_of(trial)["index"]
        notes = self._notes(index)
        self._failed(index, notes.get(board.FAILED) or last_error(trial))


def other_metrics(result: dict[str, Any], metric: str) -> dict[str, float]:
    """The numbers of a result that the loop reported itself, without the objective and the epoch; some at most."""
    found = {
        name: float(value)
        for name, value in result.items()
        if name not in (metric, EPOCH)
        and name not in AUTO_RESULT_KEYS
        and len(name) <= 128
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
    }
    return dict(sorted(found.items())[:MAX_METRICS])


def last_error(trial: Any) -> str:
    """The last line of a trial's traceback that says something."""
    try:
        text = Path(trial.error_file).read_text(errors="replace")
    except (OSError, TypeError):
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "unknown error"


def run_tune(
    sweep: Sweep,
    records: Records,
    watch: Watch,
    setup: TrialSetup,
    board_handle: Any,
    *,
    name: str,
    indices: list[int],
    concurrent: int,
    resource: str,
    committed: Callable[[int], bool],
    rooms: Rooms,
    targets: dict[int, int] | None = None,
) -> None:
    """Runs the given trials and returns when they ended or the watch says stop. Main thread only.

    Args:
        sweep: what runs.
        records: where proposals and states go.
        watch: what may end the run, and what it tells.
        setup: what all trials share.
        board_handle: the board's actor.
        name: of this run under `tune/`, never used before.
        indices: trials to run, in order.
        concurrent: trials at a time.
        resource: custom Ray resource that each trial driver holds.
        committed: whether a trial has a committed checkpoint.
        rooms: Train runs that end are noted there.
        targets: trials that are mended and the epoch they must reach again; they know no other rule.
    """
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # its failure would end all trials; ReportCallback looks
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # JSON is enough; TensorBoard's writer costs seconds
    os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", str(concurrent))
    early = sweep.spec.trials.early_stopping is not None and not targets
    scheduler: Queue = EarlyStopper(sweep, records) if early else Queue()
    if not targets:
        scheduler.watch, scheduler.grace = watch, float(sweep.spec.cleanup.stop_grace_seconds)
    names: dict[str, int] = {}
    recorder = Recorder(sweep, records, watch, scheduler, names, board_handle, setup.root, committed, rooms)
    trainable = ray.tune.with_resources(
        ray.tune.with_parameters(run_trial, setup=setup), ray.tune.PlacementGroupFactory([{resource: 1}])
    )
    tuner = ray.tune.Tuner(
        trainable,
        tune_config=ray.tune.TuneConfig(
            search_alg=RecordSearcher(sweep, records, watch, indices),
            scheduler=scheduler,
            num_samples=len(indices),
            max_concurrent_trials=concurrent,
            trial_name_creator=lambda trial: identity_of(trial)["trial"],
            trial_dirname_creator=lambda trial: identity_of(trial)["trial"],
        ),
        run_config=ray.tune.RunConfig(
            name=name,
            storage_path=f"{setup.root}/{layout.TUNE}",
            storage_filesystem=setup.filesystem,
            failure_config=ray.tune.FailureConfig(max_failures=sweep.spec.failure_policy.trial_retries),
            callbacks=[recorder, JsonLoggerCallback()],
            stop=StopRules(sweep, records, watch, targets or {}, names),
            verbose=0,
        ),
    )
    tuner.fit()
