"""The search space: its values as the spec types them, its grid, and its image in Optuna."""

from __future__ import annotations

import hashlib
import math
import warnings
from decimal import Decimal
from typing import Any

from trainsweep.api.search import Parameter, Search
from trainsweep.api.space import decimal, why_outside

Parameters = dict[str, Any]


class SpaceError(ValueError):
    """A space that cannot be searched; the message names the field."""


def seed_of(seed: int, index: int) -> int:
    """A seed of its own for one proposal: 32 bits of a hash, so that neighbours have nothing in common."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{index}".encode()).digest()[:4], "big")


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
    low, high, width = (decimal(v) for v in (dimension.min, dimension.max, dimension.step))
    return [float(low + i * width) for i in range(int((high - low) / width) + 1)]


class Space:
    """What can be proposed.

    Raises:
        SpaceError: where an initial point does not belong to the space.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.grid = [grid_values(p) for p in search.parameters] if search.algorithm.grid is not None else []
        self.points = [self._point(i, point) for i, point in enumerate(search.initial_points)]
        """The initial points, each value with the type of its parameter."""

    def _point(self, number: int, point: Parameters) -> Parameters:
        where = f"search.initialPoints[{number}]"
        for parameter in self.search.parameters:
            if parameter.name not in point:
                raise SpaceError(f"{where} gives no value for {parameter.name}")
            if problem := why_outside(parameter, point[parameter.name]):
                raise SpaceError(f"{where}.{parameter.name}: {problem}")
        return {p.name: typed(p, point[p.name]) for p in self.search.parameters}

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

    def grid_point(self, index: int) -> Parameters:
        """One point of the grid; the last parameter changes fastest."""
        chosen, rest = {}, index
        for parameter, values in reversed(list(zip(self.search.parameters, self.grid, strict=True))):
            rest, place = divmod(rest, len(values))
            chosen[parameter.name] = values[place]
        if rest:
            raise SpaceError(f"the grid has no point {index}")
        return {p.name: chosen[p.name] for p in self.search.parameters}

    def distributions(self) -> dict[str, Any]:
        """The space as Optuna has it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a range cut to its step: `trainsweep plan` says so
            return {p.name: _distribution(p) for p in self.search.parameters}

    def to_optuna(self, parameters: Parameters) -> Parameters:
        """Values as Optuna's distributions have them."""
        return {p.name: _to_optuna(p, parameters[p.name]) for p in self.search.parameters}

    def from_optuna(self, values: Parameters) -> Parameters:
        """Values as the spec has them."""
        return {p.name: _from_optuna(p, values[p.name]) for p in self.search.parameters}

    def why_outside(self, parameters: Parameters) -> str:
        """Why a point of another search is none of this space; empty when it is one. More parameters do not matter."""
        for parameter in self.search.parameters:
            if parameter.name not in parameters:
                return f"has no {parameter.name}"
            if problem := why_outside(parameter, parameters[parameter.name]):
                return problem
        return ""


def typed(parameter: Parameter, value: Any) -> Any:
    """A value of the space as the spec types it: JSON does not tell 1 from 1.0."""
    if parameter.categorical is not None:
        return next(v for v in parameter.categorical.values if _same(v, value))
    return int(value) if parameter.int_ is not None else float(value)


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _distribution(parameter: Parameter) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.float_ is not None:
        low, high, step = parameter.float_.min, parameter.float_.max, parameter.float_.step
        return FloatDistribution(low, high, log=parameter.float_.log, step=step)
    if parameter.int_ is not None:
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
    if parameter.int_ is not None:
        return int(value)
    if parameter.float_ is None or parameter.float_.step is None:
        return float(value)
    # On the decimal grid, as a person counts it: Optuna's 0.30000000000000004 is 0.3.
    low, width = decimal(parameter.float_.min), decimal(parameter.float_.step)
    return float(low + ((Decimal(float(value)) - low) / width).to_integral_value() * width)


def _to_optuna(parameter: Parameter, value: Any) -> Any:
    if parameter.categorical is not None:
        return next(i for i, v in enumerate(parameter.categorical.values) if _same(v, value))
    return value
