"""What a parameter can really be: the values that its step reaches, and the upper end that it does not."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from trainsweep.api.search import Parameter
from trainsweep.api.space import decimal, values_count


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
    kind = "float" if parameter.float_ is not None else "int"
    low, high, count = decimal(span.min), decimal(span.max), values_count(parameter)
    if count is None:
        return Reach(parameter.name, kind, None, _show(low), _show(high))
    last = low + (count - 1) * decimal(span.step if span.step is not None else 1)
    return Reach(parameter.name, kind, count, _show(low), _show(last), _show(high) if last != high else "")
