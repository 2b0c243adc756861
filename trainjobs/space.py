"""The search space and its proposals: random, grid and TPE over Optuna's samplers.

A proposal depends on the seed, its index and, for TPE, on what is known by then: the same seed proposes the same
trials, however many run at a time. Values keep the type that the spec gives them.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from decimal import Decimal
from typing import Any

from trainsweep.api.search import FloatRange, IntRange, Parameter, Search

Parameters = dict[str, Any]


class SpaceError(ValueError):
    """A space that cannot be searched; the message names the field."""


def grid_values(parameter: Parameter) -> list[Any]:
    """The values of one dimension of a grid, in order."""
    if parameter.categorical is not None:
        return list(parameter.categorical.values)
    if parameter.int_ is not None:
        step = parameter.int_.step or 1
        return list(range(parameter.int_.min, parameter.int_.max + 1, step))
    dimension = parameter.float_
    if dimension is None or dimension.step is None:
        raise SpaceError(f"search.parameters[{parameter.name}]: a grid needs a step for a float range")
    # Decimal of the shortest text: 0.1 + 2 * 0.1 is 0.3 for a person, and for the configuration's hash.
    low, high, width = (Decimal(repr(v)) for v in (dimension.min, dimension.max, dimension.step))
    return [float(low + i * width) for i in range(int((high - low) / width) + 1)]


def seed_of(seed: int, index: int) -> int:
    """The seed of one proposal: 32 bits of a hash, so that neighbours have nothing in common."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4], "big")


class Space:
    """What can be proposed. `propose` is deterministic given the observations told so far."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.grid = [grid_values(p) for p in search.parameters] if search.algorithm.grid is not None else []
        self._study: Any = None
        self._asked: dict[int, Any] = {}

    def count(self, wanted: int | None) -> int:
        """How many trials the sweep has.

        Raises:
            SpaceError: where `trials.count` contradicts the grid's size or is missing.
        """
        if self.search.algorithm.grid is not None:
            size = math.prod(len(values) for values in self.grid)
            if wanted is not None and wanted != size:
                raise SpaceError(f"trials.count is {wanted}, but the grid has {size} points: remove it or set {size}")
            if size > 10_000:
                raise SpaceError(f"search: the grid has {size} points, more than 10,000: drop values or use random")
            return size
        if wanted is None:
            raise SpaceError("trials.count is required unless the algorithm is grid")
        return wanted

    def propose(self, index: int) -> Parameters:
        """The parameters of a trial. Call it once an index: what it returned is to be recorded before anything else."""
        points = self.search.initial_points
        if index < len(points):
            chosen = {p.name: _typed(p, points[index][p.name]) for p in self.search.parameters}
            self._remember(index, chosen)
            return chosen
        if self.search.algorithm.grid is not None:
            return self._grid_point(index)
        return self._ask(index)

    def _grid_point(self, index: int) -> Parameters:
        chosen, rest = {}, index
        for parameter, values in reversed(list(zip(self.search.parameters, self.grid, strict=True))):
            rest, place = divmod(rest, len(values))
            chosen[parameter.name] = values[place]
        if rest:
            raise SpaceError(f"the grid has no point {index}")
        return {p.name: chosen[p.name] for p in self.search.parameters}

    def _sampler(self, index: int) -> Any:
        import optuna

        tpe, random = self.search.algorithm.tpe, self.search.algorithm.random
        if tpe is not None:
            # Trials still running count as bad ones for the moment, so that parallel proposals differ.
            return optuna.samplers.TPESampler(
                seed=seed_of(tpe.seed, index), n_startup_trials=tpe.startup_trials, constant_liar=True
            )
        return optuna.samplers.RandomSampler(seed=seed_of(random.seed if random is not None else 0, index))

    def _open(self) -> Any:
        if self._study is None:
            import optuna

            optuna.logging.set_verbosity(optuna.logging.WARNING)
            self._study = optuna.create_study(direction="minimize", sampler=self._sampler(0))
        return self._study

    def _ask(self, index: int) -> Parameters:
        study = self._open()
        study.sampler = self._sampler(index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a range cut to its step
            trial = study.ask({p.name: _distribution(p) for p in self.search.parameters})
        self._asked[index] = trial.number
        return {p.name: _from_optuna(p, trial.params[p.name]) for p in self.search.parameters}

    def _remember(self, index: int, parameters: Parameters) -> None:
        """Makes a proposal that was not drawn here (initial point, earlier attempt) known to TPE."""
        if self.search.algorithm.tpe is None or index in self._asked:
            return
        import optuna

        study = self._open()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            distributions = {p.name: _distribution(p) for p in self.search.parameters}
            values = {p.name: _to_optuna(p, parameters[p.name]) for p in self.search.parameters}
            if not all(distributions[n]._contains(distributions[n].to_internal_repr(v)) for n, v in values.items()):
                return  # a known good point may lie outside of the ranges: it runs, but cannot teach
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.RUNNING, params=values, distributions=distributions
                )
            )
        self._asked[index] = len(study.trials) - 1

    def recall(self, index: int, parameters: Parameters) -> None:
        """Makes a recorded proposal of an earlier attempt known."""
        self._remember(index, parameters)

    def observe(self, index: int, value: float | None, *, maximize: bool) -> None:
        """Tells how a trial ended: with its best value, or None where it failed."""
        if self.search.algorithm.tpe is None or index not in self._asked:
            return
        import optuna

        number = self._asked.pop(index)
        if value is None or not math.isfinite(value):
            self._open().tell(number, state=optuna.trial.TrialState.FAIL)
        else:
            self._open().tell(number, -value if maximize else value)


def _typed(parameter: Parameter, value: Any) -> Any:
    """A value as the spec types it: JSON does not tell 1 from 1.0."""
    if parameter.int_ is not None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
            raise SpaceError(f"search.initialPoints: {parameter.name} must be a whole number, got {value!r}")
        return int(value)
    if parameter.float_ is not None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise SpaceError(f"search.initialPoints: {parameter.name} must be a number, got {value!r}")
        return float(value)
    return value


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _distribution(parameter: Parameter) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(parameter.float_, FloatRange):
        low, high, step = parameter.float_.min, parameter.float_.max, parameter.float_.step
        return FloatDistribution(low, high, log=parameter.float_.log, step=step)
    if isinstance(parameter.int_, IntRange):
        return IntDistribution(
            parameter.int_.min, parameter.int_.max, log=parameter.int_.log, step=parameter.int_.step or 1
        )
    if parameter.categorical is None:
        raise SpaceError(f"search.parameters[{parameter.name}]: set one of float, int or categorical")
    # By place, not by value: Optuna takes True and 1 for the same choice.
    return CategoricalDistribution(list(range(len(parameter.categorical.values))))


def _from_optuna(parameter: Parameter, value: Any) -> Any:
    if parameter.categorical is not None:
        return parameter.categorical.values[value]
    return int(value) if parameter.int_ is not None else float(value)


def _to_optuna(parameter: Parameter, value: Any) -> Any:
    if parameter.categorical is not None:
        places = [i for i, v in enumerate(parameter.categorical.values) if _same(v, value)]
        return places[0] if places else -1
    return value
