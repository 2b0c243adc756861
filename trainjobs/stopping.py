"""When trials end: early stopping by rungs or by the median, stop rules, and what of it a later attempt must know.

A rule looks at a trial at certain epochs only. What it saw there is in the record (`rungs`) and is shown to the rule
again by a later attempt, so that neither a kill nor a resume makes it forget.
"""

from __future__ import annotations

import itertools
import logging
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray.tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from trainjobs.records import Records
from trainjobs.sweep import Sweep
from trainjobs.trial import KEY
from trainsweep.api.stopping import EarlyStopping
from trainsweep.contract.owed import better
from trainsweep.contract.snapshot import EPOCH

logger = logging.getLogger(__name__)
MAX_LOOKS = 64


class DriverOnly:
    """Lives in this process: Tune pickles its Tuner for a restore that we never make, and finds a word instead."""

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (type(self).__name__,)


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
    last_step_at: float | None = None
    """Unix seconds of the last report or start of any trial."""
    begun: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Monotonic time of each running trial's start, and the seconds that its earlier tries took."""
    trial_seconds: int | None = None
    """How long a trial may take; the heartbeat sets it."""
    timed_out: set[int] = field(default_factory=set)
    """Trials that took longer."""

    def begin(self, index: int, before: float) -> None:
        """A trial starts, whose earlier tries took so many seconds."""
        self.begun[index], self.last_step_at = (time.monotonic(), before), time.time()

    def overdue(self, index: int, grace: float = 0.0) -> bool:
        """Whether a running trial has held its workers for longer than a trial may, and the grace."""
        if self.trial_seconds is None or index not in self.begun:
            return False
        start, before = self.begun[index]
        return before + time.monotonic() - start >= self.trial_seconds + grace


class Rule(Protocol):
    """One early-stopping rule over the trials that belong to it."""

    @property
    def looks(self) -> Sequence[int]:
        """Epochs at which it looks, ascending."""
        ...

    @property
    def last(self) -> int | None:
        """Epoch at which a trial is complete, if the rule says so."""
        ...

    def see(self, trial: str, epoch: int, value: float) -> bool:
        """Shows a trial's objective at one of the looks; True where the trial is to be stopped."""
        ...


class Halving:
    """Asynchronous successive halving, by Tune's own scheduler."""

    def __init__(self, metric: str, mode: str, *, last: int, grace: int, factor: int) -> None:
        self._metric, self.last = metric, last
        self._asha = ASHAScheduler(
            time_attr=EPOCH,
            metric=metric,
            mode="max" if mode == "Maximize" else "min",
            max_t=last,
            grace_period=grace,
            reduction_factor=factor,
        )
        self.looks = [grace * factor**k for k in range(MAX_LOOKS) if grace * factor**k < last]
        self._known: dict[str, Any] = {}

    def see(self, trial: str, epoch: int, value: float) -> bool:
        """See Rule."""
        if trial not in self._known:
            # All that the scheduler wants of a trial is its id.
            self._known[trial] = type("Trial", (), {"trial_id": trial})
            self._asha.on_trial_add(None, self._known[trial])
        decision = self._asha.on_trial_result(None, self._known[trial], {EPOCH: epoch, self._metric: value})
        return bool(decision == TrialScheduler.STOP)


class MedianRule:
    """Stops a trial whose best is worse than the median of the running means of the trials that came as far."""

    last = None

    def __init__(self, mode: str, *, grace: int, minimum: int, interval: int) -> None:
        self._mode, self._minimum = mode, minimum
        self.looks = [grace + k * interval for k in range(MAX_LOOKS)]
        self._seen: dict[str, dict[int, float]] = {}

    def see(self, trial: str, epoch: int, value: float) -> bool:
        """See Rule."""
        own = self._seen.setdefault(trial, {})
        own[epoch] = value
        means = [
            statistics.fmean(v for e, v in seen.items() if e <= epoch)
            for name, seen in self._seen.items()
            if name != trial and max(seen) >= epoch and min(seen) <= epoch
        ]
        if len(means) < self._minimum:
            return False
        best = max(own.values()) if self._mode == "Maximize" else min(own.values())
        return better(statistics.median(means), best, self._mode)


def shares(count: int, factor: int) -> list[float]:
    """Hyperband's share of the trials for each of its brackets, the one with the shortest grace first."""
    sizes = [factor**k * count / (k + 1) for k in reversed(range(count))]
    return [size / sum(sizes) for size in sizes]


def spread(weights: Sequence[float]) -> Iterator[int]:
    """Numbers of brackets, one for each trial in turn: at any point each has had its share, as far as it can be."""
    given = [0] * len(weights)
    for n in itertools.count(1):
        chosen = max(range(len(weights)), key=lambda b: weights[b] * n - given[b])
        given[chosen] += 1
        yield chosen


def rules_of(early: EarlyStopping, metric: str, mode: str) -> tuple[list[Rule], Iterator[int]]:
    """The rules, one for each bracket, and which of them each trial belongs to, by index."""
    if early.median is not None:
        median = early.median
        rule = MedianRule(mode, grace=median.grace_epochs, minimum=median.min_trials, interval=median.interval_epochs)
        return [rule], itertools.repeat(0)
    if early.asha is not None:
        asha = early.asha
        halving = Halving(metric, mode, last=asha.max_epochs, grace=asha.grace_epochs, factor=asha.reduction_factor)
        return [halving], itertools.repeat(0)
    band = early.hyperband
    if band is None:
        raise ValueError("none of asha, hyperband and median")
    graces = [band.grace_epochs * band.reduction_factor**s for s in range(MAX_LOOKS)]
    graces = [g for g in graces if g < band.max_epochs] or [band.grace_epochs]
    brackets = [
        Halving(metric, mode, last=band.max_epochs, grace=grace, factor=band.reduction_factor) for grace in graces
    ]
    return list(brackets), spread(shares(len(brackets), band.reduction_factor))


def identity_of(trial: Any) -> dict[str, Any]:
    """Our own name of a Tune trial."""
    identity: dict[str, Any] = trial.config[KEY]
    return identity


class Queue(DriverOnly, FIFOScheduler):
    """One trial after the other. Those that outlast `deadlines.trialSeconds` and report nothing are ended by force."""

    watch: Watch | None = None
    grace = 0.0

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """See TrialScheduler. Tune asks at every step."""
        for trial in list(tune_controller.get_trials()) if self.watch is not None else []:
            index = identity_of(trial)["index"]
            if self.watch is not None and trial.status == "RUNNING" and self.watch.overdue(index, self.grace):
                logger.warning("trial %s is ended: deadlines.trialSeconds are over, and it reports nothing", index)
                self.watch.timed_out.add(index)
                tune_controller.stop_trial(trial)
        return super().choose_trial_to_run(tune_controller)


class EarlyStopper(Queue):
    """Early stopping that knows the looks of earlier attempts and remembers whom it stopped."""

    def __init__(self, sweep: Sweep, records: Records) -> None:
        super().__init__()
        early = sweep.spec.trials.early_stopping
        if early is None:
            raise ValueError("the sweep has no early stopping")
        self._metric, self._records, self.stopped = sweep.metric, records, set[int]()
        rules, brackets = rules_of(early, sweep.metric, sweep.mode)
        self._rule = [rules[b] for b in itertools.islice(brackets, sweep.count)]
        for record in records:
            for epoch, value in sorted((int(e), v) for e, v in record.rungs.items()):
                self._rule[record.index].see(record.trial, epoch, value)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """See TrialScheduler."""
        index, epoch = identity_of(trial)["index"], int(result.get(EPOCH, 0))
        value, rule, record = result.get(self._metric), self._rule[index], self._records.get(index)
        if record is None or value is None:
            return str(TrialScheduler.CONTINUE)
        due = [look for look in rule.looks if look <= epoch and str(look) not in record.rungs]
        if due:
            seen = {str(look): float(value) for look in due}
            self._records.update(index, rungs={**record.rungs, **seen})
        # All are shown, none is skipped: a loop may report every tenth epoch.
        verdicts = [rule.see(record.trial, look, float(value)) for look in due]
        if rule.last is not None and epoch >= rule.last:
            return str(TrialScheduler.STOP)  # complete
        if any(verdicts):
            self.stopped.add(index)
            return str(TrialScheduler.STOP)
        return str(TrialScheduler.CONTINUE)


class StopRules(DriverOnly, ray.tune.Stopper):
    """When a trial is complete, and when the whole run ends."""

    def __init__(
        self, sweep: Sweep, records: Records, watch: Watch, targets: dict[int, int], names: dict[str, int]
    ) -> None:
        self._sweep, self._records, self._watch = sweep, records, watch
        self._targets, self._names = targets, names

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial is complete with this result."""
        done, index = self._complete(trial_id, result), self._names.get(trial_id)
        if not done and index is not None and index not in self._targets and self._watch.overdue(index):
            self._watch.timed_out.add(index)
            return True
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
        if threshold is not None and not better(threshold, value, self._sweep.mode):
            return True
        # Both are looked at, so that the plateau's mark is kept.
        level = index is not None and self._level(index, epoch, float(value))
        return level or (stop.max_epochs is not None and epoch >= stop.max_epochs)

    def _level(self, index: int, epoch: int, value: float) -> bool:
        """Whether the objective has not improved for too long; the last improvement is in the record."""
        stop, record = self._sweep.spec.trials.stop, self._records.get(index)
        plateau = None if stop is None else stop.plateau
        if plateau is None or record is None:
            return False
        mark = record.improved
        if mark is None or improves(value, mark[1], plateau.min_delta, self._sweep.mode):
            self._records.update(index, improved=(epoch, value))
            return False
        return epoch - mark[0] >= plateau.epochs

    def stop_all(self) -> bool:
        """Whether the run ends now."""
        return self._watch.stop.is_set()


def improves(value: float, before: float, delta: float, mode: str) -> bool:
    """Whether a value is better by more than `delta`."""
    return (value - before if mode == "Maximize" else before - value) > delta
