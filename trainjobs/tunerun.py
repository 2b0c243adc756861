"""One run of Tune over the trials that are left: a searcher that replays or proposes, ASHA, stop rules, and the record.

Tune keeps no truth here. Its state lies under `tune/<attempt>/` for a look afterwards; a later attempt starts a fresh
Tuner from `trials.jsonl` and Train's snapshots (docs/decisions).
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
import ray.tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.result import AUTO_RESULT_KEYS
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from trainjobs import board
from trainjobs.records import FINAL, Records
from trainjobs.sweep import Sweep
from trainjobs.trial import KEY, TrialSetup, run_trial
from trainsweep.contract import layout
from trainsweep.contract.documents import MAX_METRICS
from trainsweep.contract.owed import better
from trainsweep.contract.snapshot import EPOCH

logger = logging.getLogger(__name__)


@dataclass
class Watch:
    """What the run tells the heartbeat, and what may end it. Plain flags: set from any thread, read by Tune's loop."""

    stop: threading.Event = field(default_factory=threading.Event)
    """Ends the run as soon as Tune looks (0.1 s)."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """No further trial is begun."""
    goal: bool = False
    too_many_failed: bool = False
    completed: set[int] = field(default_factory=set)
    """Trials that a stop rule ended: a run that stops at the same moment tells nobody."""
    first_report_at: float | None = None
    durations: list[float] = field(default_factory=list)
    """Seconds of the trials that ended in this attempt."""
    active: set[int] = field(default_factory=set)
    """Trials that run now."""
    reported: dict[int, float] = field(default_factory=dict)
    """Monotonic time of each trial's last report."""
    checkpoints: dict[int, str] = field(default_factory=dict)
    """Key of the best reported checkpoint of each trial, as long as it is known."""


class _DriverOnly:
    """Lives in this process: Tune pickles its Tuner for a restore that we never make, and finds a word instead."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (type(self).__name__,)


class RecordSearcher(_DriverOnly, Searcher):
    """Hands out the trials that are left: recorded ones as they were, new ones after they were recorded."""

    def __init__(self, sweep: Sweep, records: Records, watch: Watch, indices: list[int]) -> None:
        super().__init__()
        self._sweep, self._records, self._watch = sweep, records, watch
        self._left = list(indices)
        self._index_of: dict[str, int] = {}

    def suggest(self, trial_id: str) -> Any:
        """See Searcher."""
        if not self._left or self._watch.stopping.is_set():
            return Searcher.FINISHED
        index = self._left.pop(0)
        record = self._records.get(index)
        if record is None:
            record = self._records.propose(index, self._sweep.space.propose(index))
        self._index_of[trial_id] = index
        identity = {"index": index, "trial": record.trial, "configHash": record.config_hash}
        return {KEY: identity, "parameters": dict(record.parameters)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """See Searcher. The value told is the best of the trial, not its last."""
        index = self._index_of.get(trial_id)
        record = None if index is None else self._records.get(index)
        if record is not None:
            value = None if error else record.best_value
            self._sweep.space.observe(record.index, value, maximize=self._sweep.mode == "Maximize")

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the record is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: see save."""


def identity_of(trial: Any) -> dict[str, Any]:
    """Our own name of a Tune trial."""
    identity: dict[str, Any] = trial.config[KEY]
    return identity


class Rungs(_DriverOnly, ASHAScheduler):
    """ASHA that knows the rungs of earlier attempts and remembers whom it stopped."""

    def __init__(self, sweep: Sweep, records: Records) -> None:
        asha = sweep.spec.trials.early_stopping.asha if sweep.spec.trials.early_stopping else None
        if asha is None:
            raise ValueError("the sweep has no asha")
        super().__init__(
            time_attr=EPOCH,
            metric=sweep.metric,
            mode="max" if sweep.mode == "Maximize" else "min",
            max_t=asha.max_epochs,
            grace_period=asha.grace_epochs,
            reduction_factor=asha.reduction_factor,
        )
        self._records, self._max, self.stopped = records, asha.max_epochs, set[int]()
        self._sweep = sweep
        self.milestones = [
            asha.grace_epochs * asha.reduction_factor**k
            for k in range(64)
            if asha.grace_epochs * asha.reduction_factor**k < asha.max_epochs
        ]
        self._replayed: dict[int, dict[str, float]] = {}
        for record in records:
            if record.rungs:
                self._replay(record.trial, record.rungs)

    def _replay(self, trial: str, rungs: dict[str, float]) -> None:
        """Tells ASHA, through its own interface, what a trial of an earlier attempt reported at each rung."""

        class Past:
            trial_id = f"past-{trial}"

        ASHAScheduler.on_trial_add(self, None, Past)
        for epoch, value in sorted((int(e), v) for e, v in rungs.items()):
            ASHAScheduler.on_trial_result(self, None, Past, {EPOCH: epoch, self._sweep.metric: value})

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """See TrialScheduler."""
        index, epoch = identity_of(trial)["index"], int(result.get(EPOCH, 0))
        record = self._records.get(index)
        passed = {int(e) for e in record.rungs} if record is not None else set()
        due = [m for m in self.milestones if m <= epoch and m not in passed]
        if not due and epoch < self._max:
            return str(TrialScheduler.CONTINUE)  # its rungs were decided before, maybe in an earlier attempt
        decision = super().on_trial_result(tune_controller, trial, result)
        if due and record is not None:
            rungs = {**record.rungs, **{str(m): float(result[self._sweep.metric]) for m in due}}
            self._records.update(index, rungs=rungs)
        if decision == TrialScheduler.STOP and epoch < self._max:
            self.stopped.add(index)
        return str(decision)


class StopRules(_DriverOnly, ray.tune.Stopper):
    """When a trial is complete, and when the whole run ends."""

    def __init__(self, sweep: Sweep, watch: Watch, targets: dict[int, int], names: dict[str, int]) -> None:
        self._sweep, self._watch, self._targets, self._names = sweep, watch, targets, names

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial is complete with this result."""
        done = self._complete(trial_id, result)
        if done and trial_id in self._names:
            self._watch.completed.add(self._names[trial_id])
        return done

    def _complete(self, trial_id: str, result: dict[str, Any]) -> bool:
        value, epoch = result.get(self._sweep.metric), int(result.get(EPOCH, 0))
        index = self._names.get(trial_id)
        if index in self._targets:
            return epoch >= self._targets[index]
        if value is None:
            return False
        goal, stop = self._sweep.spec.objective.goal, self._sweep.spec.trials.stop
        if goal is not None and not better(goal, value, self._sweep.mode):
            self._watch.goal = True
            self._watch.stop.set()
            return True
        if stop is None:
            return False
        threshold = stop.metric_threshold
        reached = threshold is not None and not better(threshold, value, self._sweep.mode)
        return reached or (stop.max_epochs is not None and epoch >= stop.max_epochs)

    def stop_all(self) -> bool:
        """Whether the run ends now."""
        return self._watch.stop.is_set()


class Recorder(_DriverOnly, ray.tune.Callback):
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
    ) -> None:
        self._sweep, self._records, self._watch = sweep, records, watch
        self._scheduler, self._names, self._board = scheduler, names, board_handle
        self._root, self._committed = root.rstrip("/") + "/", committed
        self._started: dict[int, tuple[float, float]] = {}
        """Time of the start in this attempt, and the seconds that earlier attempts took."""

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback."""
        identity = identity_of(trial)
        self._names[trial.trial_id] = identity["index"]
        index, now = identity["index"], time.time()
        record = self._records.get(index)
        self._started.setdefault(index, (now, record.seconds if record is not None else 0.0))
        self._watch.active.add(index)
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

    def _ended(self, index: int) -> None:
        if index in self._started:
            self._records.update(index, **self._taken(index))
            self._watch.durations.append(time.time() - self._started.pop(index)[0])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback: the loop returned, or somebody decided that the trial is complete."""
        index = identity_of(trial)["index"]
        notes: dict[str, str] = ray.get(self._board.notes.remote(index, clear=True))
        self._watch.active.discard(index)
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
            self._failed(index, f"the loop ended without a report; expected: {self._sweep.metric}")
        else:
            self._close(index, "Succeeded")

    def _close(self, index: int, state: str) -> None:
        record = self._records.update(index, state=state)
        self._ended(index)
        logger.info("%s %s at epoch %s", record.trial, state, record.step)

    def _failed(self, index: int, message: str) -> None:
        self._watch.active.discard(index)
        record = self._records.update(index, state="Failed", error=" ".join(message.split())[:1000])
        self._ended(index)
        logger.warning("%s failed: %s", record.trial, record.error)
        limit = self._sweep.spec.trials.max_failed
        if limit is not None and self._records.counts().failed > limit:
            self._watch.too_many_failed = True
            self._watch.stop.set()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback."""
        index, error = identity_of(trial)["index"], " ".join(last_error(trial).split())[:1000]
        record = self._records.get(index)
        if record is not None:
            self._records.update(index, error=error, retries=record.retries + 1, **self._taken(index))
        logger.warning("%s failed and is tried again: %s", identity_of(trial)["trial"], error)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See Callback: no retry is left."""
        index = identity_of(trial)["index"]
        notes: dict[str, str] = ray.get(self._board.notes.remote(index, clear=True))
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
        targets: trials that are mended and the epoch they must reach again; they know no other rule.
    """
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # its failure would end all trials; ReportCallback looks
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # JSON is enough; TensorBoard's writer costs seconds
    os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", str(concurrent))
    early = sweep.spec.trials.early_stopping
    scheduler = (
        Rungs(sweep, records) if early is not None and early.asha is not None and not targets else FIFOScheduler()
    )
    names: dict[str, int] = {}
    recorder = Recorder(sweep, records, watch, scheduler, names, board_handle, setup.root, committed)
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
            stop=StopRules(sweep, watch, targets or {}, names),
            verbose=0,
        ),
    )
    tuner.fit()
