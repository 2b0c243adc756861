"""The dimensions of the search space as axes: a range, or choices by place."""

from __future__ import annotations

import math
from typing import Any

from trainsweep.api.search import Parameter

CHOICE = 60
"""Characters of a categorical value."""


def short(value: float | None, digits: int = 8) -> float | None:
    """A number with so many digits; None where it is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def axis_of(parameter: Parameter) -> dict[str, Any]:
    """One dimension: a range, or choices by place."""
    if parameter.categorical is not None:
        values = [_choice(v) for v in parameter.categorical.values]
        return {"name": parameter.name, "kind": "choice", "values": values}
    dimension = parameter.float_ or parameter.int_
    if dimension is None:
        return {"name": parameter.name, "kind": "choice", "values": []}
    kind = "float" if parameter.float_ is not None else "int"
    return {
        "name": parameter.name,
        "kind": kind,
        "min": float(dimension.min),
        "max": float(dimension.max),
        "log": dimension.log,
    }


def _choice(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= CHOICE else text[: CHOICE - 1] + "…"


def place_of(parameter: Parameter, value: Any) -> float | int | None:
    """A parameter's value on its axis; None where it is not on it."""
    if parameter.categorical is not None:
        for place, known in enumerate(parameter.categorical.values):
            if isinstance(known, bool) == isinstance(value, bool) and known == value:
                return place
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else short(value)
