"""Pure questions about a search space: how many values, how large a grid, does a value belong to it.

In decimals, not in binary fractions: 0.1 to 0.7 in steps of 0.2 ends at 0.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from trainsweep.api.search import Parameter
from trainsweep.api.validate import same, shown


def decimal(value: float | int) -> Decimal:
    """The number that the user wrote, not its nearest double."""
    return Decimal(repr(value))


def values_count(parameter: Parameter) -> int | None:
    """How many values a parameter can take; None for a continuum."""
    if parameter.categorical is not None:
        return len(parameter.categorical.values)
    span = parameter.float_ or parameter.int_
    if span is None:
        return 0
    step = span.step if span.step is not None else (1 if parameter.int_ is not None else None)
    if step is None:
        return None
    return int((decimal(span.max) - decimal(span.min)) // decimal(step)) + 1


def grid_size(parameters: Sequence[Parameter]) -> int | None:
    """Number of points of the grid; None where a parameter is a continuum."""
    size = 1
    for parameter in parameters:
        count = values_count(parameter)
        if count is None:
            return None
        size *= count
    return size


def why_outside(parameter: Parameter, value: Any) -> str:
    """Why a parameter cannot take this value; empty when it can."""
    if parameter.categorical is not None:
        if any(same(value, v) for v in parameter.categorical.values):
            return ""
        return f"{shown(value)} is none of the values of {parameter.name}"
    span = parameter.float_ or parameter.int_
    if span is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        hint = ": remove the quotes" if isinstance(value, str) else ""
        return f"{shown(value)} is no number, as {parameter.name} needs it{hint}"
    if parameter.int_ is not None and value != int(value):
        return f"{value} is no whole number, as {parameter.name} needs it"
    if not span.min <= value <= span.max:
        return f"{value} lies outside {span.min} to {span.max}"
    if span.step is not None and (decimal(value) - decimal(span.min)) % decimal(span.step) != 0:
        return f"{value} is not {span.min} plus a multiple of the step {span.step}"
    return ""
