"""Which checkpoints a sweep owes: one rule, used by the driver for its receipt and by the operator against it.

Input is what is committed: Train's own snapshot of each trial (its list of checkpoints with their metrics) and the
trial's state. Tune's memory, directory listings and returned reports prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainsweep.api.workload import Require as Require

RESUMABLE_OUTCOMES = frozenset({"Stopped", "DeadlineExceeded", "BudgetExceeded"})
"""Outcomes after which unfinished trials may go on in a later attempt: `owed_checkpoints(resumable=...)` for both looks."""


@dataclass(frozen=True)
class Committed:
    """One committed checkpoint of a trial."""

    checkpoint: str
    """Key of its directory, relative to the run."""
    step: int
    value: float | None
    """The objective as reported with it; None where it was not reported or is not finite."""


@dataclass(frozen=True)
class TrialState:
    """What is committed of one trial. `state` is a `TrialRecord.state`."""

    trial: str
    state: str
    checkpoints: tuple[Committed, ...]
    """In the order of commitment: the last is the newest."""


@dataclass(frozen=True)
class OwedCheckpoint:
    """A trial's checkpoint that must be proven."""

    trial: str
    checkpoint: str
    step: int
    value: float | None


def better(a: float, b: float, mode: str) -> bool:
    """Whether a is strictly better than b."""
    return a > b if mode == "Maximize" else a < b


def best_of(checkpoints: Iterable[Committed], mode: str) -> Committed | None:
    """The committed checkpoint with the best finite value; the earlier one wins a tie. None where none has a value."""
    best: Committed | None = None
    for item in checkpoints:
        if item.value is None or not math.isfinite(item.value):
            continue
        if best is None or best.value is None or better(item.value, best.value, mode):
            best = item
    return best


def owed_checkpoints(
    trials: Sequence[TrialState], require: Require, mode: str, *, resumable: bool = False
) -> list[OwedCheckpoint]:
    """Derives the owed set.

    Args:
        trials: every known trial.
        require: the policy.
        mode: `Minimize` or `Maximize`.
        resumable: whether an unfinished trial may be resumed by a later attempt; its newest checkpoint is then owed too.

    Returns:
        Owed checkpoints, sorted by trial and step, each directory once.
    """
    owed: dict[str, OwedCheckpoint] = {}

    def add(trial: TrialState, item: Committed | None) -> None:
        if item is not None:
            owed[item.checkpoint] = OwedCheckpoint(trial.trial, item.checkpoint, item.step, item.value)

    if require is Require.NONE:
        return []
    if require is Require.BEST_TRIAL:
        ranked = [(t, best_of(t.checkpoints, mode)) for t in sorted(trials, key=lambda t: t.trial)]
        winner: tuple[TrialState, Committed] | None = None
        for trial, item in ranked:
            if item is None or item.value is None:
                continue
            if winner is None or winner[1].value is None or better(item.value, winner[1].value, mode):
                winner = (trial, item)
        if winner is not None:
            add(*winner)
    else:
        wanted = {"Succeeded", "EarlyStopped"} if require is Require.ALL_SUCCEEDED else None
        for trial in trials:
            if wanted is None or trial.state in wanted:
                add(trial, best_of(trial.checkpoints, mode) or (trial.checkpoints[-1] if trial.checkpoints else None))
    if resumable:
        for trial in trials:
            if trial.state in ("Running", "Proposed") and trial.checkpoints:
                add(trial, trial.checkpoints[-1])
    return sorted(owed.values(), key=lambda o: (o.trial, o.step, o.checkpoint))


def best_owed(owed: Iterable[tuple[str, float | None]], mode: str) -> str | None:
    """The owed checkpoint that is exported: the best by value, the first by name among equals; None where none has one.

    Args:
        owed: keys of the owed checkpoints with their values.
        mode: `Minimize` or `Maximize`.
    """
    winner: tuple[str, float] | None = None
    for key, value in sorted(owed, key=lambda o: o[0]):
        if value is not None and math.isfinite(value) and (winner is None or better(value, winner[1], mode)):
            winner = (key, value)
    return winner[0] if winner else None
