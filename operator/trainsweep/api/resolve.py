"""From what the user wrote and what the class says to the spec that is run: class defaults below, inline defaults last.

Nothing of it is written to `spec`; what a user should know of it goes to `status.resolved`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from trainsweep.api.schema import NOT_IN_CLASS, REPLACED_WHOLE, spec_schema
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.api.validate import pruned, violations


class SpecError(ValueError):
    """A spec that cannot be run. `problems` are (field path, message) pairs, in order."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {message}" for path, message in problems))


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge of maps; lists and scalars of `above` replace. A union (one key of several) is replaced whole."""
    out = dict(below)
    for key, value in above.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and key not in REPLACED_WHOLE:
            out[key] = merge(old, value)
        else:
            out[key] = value
    return out


def problems_of(error: ValidationError) -> list[tuple[str, str]]:
    """Pydantic's errors as (field path in the API's own spelling, message)."""
    found = []
    for item in error.errors(include_url=False):
        path = "spec"
        for part in item["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}"
        found.append((path, item["msg"]))
    return found


def _from_class(path: str, spec: Mapping[str, Any]) -> bool:
    """Whether the field at a path is not the sweep's own words, so that only the class can have set it."""
    node: Any = spec
    for part in path.replace("[", ".").split(".")[1:]:
        if not isinstance(node, Mapping):
            return False
        if part not in node:
            return True
        node = node[part]
    return False


def resolve(spec: Mapping[str, Any], sweep_class: TrainSweepClassSpec | None) -> TrainSweepSpec:
    """The spec that is run.

    Args:
        spec: `.spec` as stored in the API server or read from a file.
        sweep_class: the class, if there is one.

    Raises:
        SpecError: naming every field that the API server would refuse too. What only the whole can show is left to
            `trainsweep.api.checks.check_spec`.
    """
    defaults = {k: v for k, v in (sweep_class.defaults if sweep_class else {}).items() if k not in NOT_IN_CLASS}
    # Null means absent, as in the API server: it never hides a class's default.
    merged = merge(pruned(defaults, spec_schema()), pruned(spec, spec_schema()))
    problems = violations(merged, spec_schema())
    if problems and defaults:
        problems = [(p, f"{m} (from the class's defaults)" if _from_class(p, spec) else m) for p, m in problems]
    if problems:
        raise SpecError(problems)
    try:
        resolved = TrainSweepSpec.model_validate(merged)
    except ValidationError as error:
        raise SpecError(problems_of(error)) from None
    cleanup, timeout = resolved.cleanup, resolved.checkpoints.verify.timeout_seconds
    if cleanup.hold_seconds < timeout:
        longer = cleanup.model_copy(
            update={"hold_seconds": timeout, "max_hold_seconds": max(timeout, cleanup.max_hold_seconds)}
        )
        resolved = resolved.model_copy(update={"cleanup": longer})
    return resolved
