"""Who proposes: random, grid and qmc by index alone, tpe, cmaes and gp through an Optuna study that is told results.

random, grid and qmc depend on seed and index only: no concurrency, kill or resume changes what they propose. tpe, cmaes
and gp depend on the order of proposals and results. Both are in the record (`told`, `order`), so that a later attempt
asks again in the same order and ends up in the state in which the former one died, through Optuna's public interface.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainjobs.samplers import index_sampler, study_sampler
from trainjobs.space import Parameters, Space, seed_of
from trainsweep.contract.documents import TrialRecord

logger = logging.getLogger(__name__)

FINAL = frozenset({"Succeeded", "EarlyStopped", "Failed"})
REPLAY_LIMIT = {"tpe": 1000, "cmaes": 2000, "gp": 150}
"""Up to so many recorded proposals are asked for again. Beyond it would take minutes: the records become observations."""


@dataclass(frozen=True)
class Observation:
    """A finished trial, as something to learn from."""

    parameters: Parameters
    value: float


class _Records(Protocol):
    """What a replay needs of `trainjobs.records.Records`."""

    def __iter__(self) -> Any: ...

    def update(self, index: int, **changes: Any) -> TrialRecord: ...


class Proposals:
    """Proposes trials and is told how they ended. One thread only.

    Args:
        space: what can be proposed.
        maximize: the direction of the objective.
        concurrent: trials at a time: with more than one, those that run count as known to be bad for the moment, so that
            parallel proposals differ.
    """

    def __init__(self, space: Space, *, maximize: bool, concurrent: int) -> None:
        self.space = space
        self.told = 0
        """Results told so far."""
        algorithm = space.search.algorithm
        adaptive = next((name for name in REPLAY_LIMIT if getattr(algorithm, name) is not None), None)
        self._study = None if adaptive is None else _Study(space, adaptive, maximize=maximize, parallel=concurrent > 1)
        self._order: dict[int, int] = {}

    @property
    def learns(self) -> bool:
        """Whether results change what is proposed."""
        return self._study is not None

    def warm(self, observations: Sequence[Observation]) -> None:
        """Gives the trials of an earlier run; before anything else."""
        if self._study is not None:
            self._study.warm = list(observations)

    def propose(self, index: int) -> Parameters:
        """The parameters of a trial. Call it once an index: what it returned is to be recorded before anything else."""
        if self._study is not None:
            return self._study.ask(index)
        if index < len(self.space.points):
            return dict(self.space.points[index])
        if self.space.search.algorithm.grid is not None:
            return self.space.grid_point(index)
        return self._by_index(index)

    def _by_index(self, index: int) -> Parameters:
        sampler = index_sampler(self.space.search.algorithm, index, self.space.distributions())
        study = _open_study(sampler, maximize=False)
        return self.space.from_optuna(_ask(study, self.space).params)

    def tell(self, index: int, value: float | None) -> int:
        """Tells how a trial ended, once: with its best value, or None where it failed.

        Returns:
            The how-many-th result it is; what was told before keeps its number.
        """
        if index not in self._order:
            self.told += 1
            self._order[index] = self.told
            if self._study is not None:
                self._study.tell(index, value)
        return self._order[index]

    def replay(self, records: _Records) -> None:
        """Takes over what earlier attempts recorded, in the order in which it happened."""
        found: list[TrialRecord] = list(records)
        if self._study is not None and len(found) > self._study.replay_limit:
            self._study.condense(found)
        ended = [r for r in found if r.state in FINAL]
        ordered = sorted((r for r in ended if r.order is not None), key=lambda r: r.order or 0)
        for record in found:
            while ordered and self.told < record.told:
                self._retell(ordered.pop(0), records)
            if self._study is not None:
                self._study.repeat(record.index, dict(record.parameters))
        # A driver that died between a trial's end and the note of it leaves results without a number.
        for record in [*ordered, *(r for r in ended if r.order is None)]:
            self._retell(record, records)
        if found:
            logger.info("the search knows %d proposals and %d results of earlier attempts", len(found), self.told)

    def _retell(self, record: TrialRecord, records: _Records) -> None:
        order = self.tell(record.index, result_of(record))
        if order != record.order:
            records.update(record.index, order=order)


def result_of(record: TrialRecord) -> float | None:
    """What the search is told of a trial that ended: its best value, None where it failed."""
    return None if record.state == "Failed" else record.best_value


class _Study:
    """An Optuna study that is asked and told by index of trial."""

    def __init__(self, space: Space, algorithm: str, *, maximize: bool, parallel: bool) -> None:
        self._space, self._algorithm, self._maximize, self._parallel = space, algorithm, maximize, parallel
        self.replay_limit = REPLAY_LIMIT[algorithm]
        self.warm: list[Observation] = []
        self._study: Any = None
        self._numbers: dict[int, int] = {}
        self._reseed: int | None = None
        self._exact = True

    def _open(self) -> Any:
        if self._study is None:
            source = [self._trial(o.parameters, o.value) for o in self.warm]
            seed: int = getattr(self._space.search.algorithm, self._algorithm).seed
            seed = seed if self._reseed is None else seed_of(seed, self._reseed)
            self._study = _open_study(
                study_sampler(
                    self._space.search.algorithm, seed, parallel=self._parallel, source=source, maximize=self._maximize
                ),
                maximize=self._maximize,
            )
            if self._algorithm != "cmaes":  # it takes them as the start of its distribution
                self._study.add_trials(source)
            for point in self._space.points if self._reseed is None else ():
                self._study.enqueue_trial(self._space.to_optuna(point))
        return self._study

    def _trial(self, parameters: Parameters, value: float | None) -> Any:
        from optuna.trial import TrialState, create_trial

        return create_trial(
            params=self._space.to_optuna(parameters),
            distributions=self._space.distributions(),
            value=value,
            state=TrialState.RUNNING if value is None else TrialState.COMPLETE,
        )

    def ask(self, index: int) -> Parameters:
        trial = _ask(self._open(), self._space)
        self._numbers[index] = trial.number
        return self._space.from_optuna(trial.params)

    def tell(self, index: int, value: float | None) -> None:
        from optuna.trial import TrialState

        number = self._numbers.pop(index, None)
        if number is None:
            return
        if value is None or not math.isfinite(value):
            self._open().tell(number, state=TrialState.FAIL)
        else:
            self._open().tell(number, value)

    def repeat(self, index: int, parameters: Parameters) -> None:
        """Asks once more for what was proposed before. Where another answer comes, the record is right."""
        if self._exact and self._reseed is None:
            if self.ask(index) == parameters:
                return
            logger.warning(
                "trial %d is proposed otherwise than it was recorded (another version of Optuna, SciPy or torch, or "
                "another processor): the search goes on from the recorded trials",
                index,
            )
            self._exact = False
            self.tell(index, None)
        if self._space.why_outside(parameters):
            return  # cannot teach, but runs
        study = self._open()
        study.add_trial(self._trial(parameters, None))
        self._numbers[index] = len(study.get_trials(deepcopy=False)) - 1

    def condense(self, records: Iterable[TrialRecord]) -> None:
        """Instead of many repetitions: a new seed, made from the number of records, and the results as observations."""
        found = list(records)
        self._reseed = len(found)
        if self._algorithm == "cmaes":
            values = [(r, result_of(r)) for r in found if r.state in FINAL]
            self.warm += [Observation(dict(r.parameters), v) for r, v in values if v is not None]


def _open_study(sampler: Any, *, maximize: bool) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize" if maximize else "minimize", sampler=sampler)


def _ask(study: Any, space: Space) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a range cut to its step
        return study.ask(space.distributions())
