"""The search space in numbers: which values a parameter can take, how large a grid is, whether known points lie inside.

Values are counted in decimals: in binary floating point the upper end of `0.1 … 0.7 step 0.2` would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from trainsweep.api.search import Parameter, Search
from trainsweep.plan.shapes import Refusal

MAX_TRIALS = 10_000


@dataclass(frozen=True)
class Reach:
    """What one parameter can be."""

    name: str
    kind: str
    count: int | None
    """Number of different values; None for a continuum."""
    first: str
    last: str
    cut: str = ""
    """The upper end as written, where the step does not reach it."""


def _decimal(value: float | int) -> Decimal:
    return Decimal(repr(value))


def _show(value: Decimal) -> str:
    return f"{value.normalize():f}" if -7 <= value.adjusted() <= 15 else f"{value.normalize():e}"


def reach(parameter: Parameter) -> Reach:
    """The values that a parameter can really take."""
    if parameter.categorical is not None:
        values = parameter.categorical.values
        return Reach(parameter.name, "categorical", len(values), repr(values[0]), repr(values[-1]))
    span = parameter.float_ or parameter.int_
    if span is None:
        return Reach(parameter.name, "none", 0, "", "")
    low, high = _decimal(span.min), _decimal(span.max)
    kind = "float" if parameter.float_ is not None else "int"
    step = _decimal(span.step) if span.step is not None else (Decimal(1) if kind == "int" else None)
    if step is None or step <= 0:
        return Reach(parameter.name, kind, None, _show(low), _show(high))
    count = int((high - low) // step) + 1
    last = low + (count - 1) * step
    return Reach(parameter.name, kind, max(count, 0), _show(low), _show(last), _show(high) if last != high else "")


def grid_size(parameters: Sequence[Parameter]) -> int | None:
    """Points of the grid; None when a parameter has no finite number of values."""
    size = 1
    for parameter in parameters:
        count = reach(parameter).count
        if count is None:
            return None
        size *= count
    return size


def _inside(parameter: Parameter, value: Any) -> str:
    """Why a value is not one that the parameter can take; empty when it is."""
    if parameter.categorical is not None:
        same = [
            v for v in parameter.categorical.values if v == value and isinstance(v, bool) == isinstance(value, bool)
        ]
        return "" if same else f"{value!r} is none of the values"
    span = parameter.float_ or parameter.int_
    if span is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{value!r} is no number"
    if parameter.int_ is not None and value != int(value):
        return f"{value!r} is no integer"
    if not span.min <= value <= span.max:
        return f"{value!r} lies outside {span.min} to {span.max}"
    step = span.step
    if step is not None and (_decimal(value) - _decimal(span.min)) % _decimal(step) != 0:
        return f"{value!r} is no multiple of step {step} above {span.min}"
    return ""


def check_points(search: Search) -> list[Refusal]:
    """Known points that the space does not contain."""
    known = {p.name: p for p in search.parameters}
    found = []
    for i, point in enumerate(search.initial_points):
        path = f"search.initialPoints[{i}]"
        for name in sorted(set(known) - set(point)):
            found.append(Refusal(path, f"gives no value for {name}: each point needs every parameter"))
        for name, value in point.items():
            if name not in known:
                found.append(
                    Refusal(f"{path}.{name}", "is no parameter of the search: remove it, or add the parameter")
                )
            elif problem := _inside(known[name], value):
                found.append(Refusal(f"{path}.{name}", f"{problem}: choose a value of the range"))
    return found
