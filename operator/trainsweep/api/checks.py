"""What no schema and no CEL rule can say: checks over several fields of a resolved spec, pure, one small function each.

The operator makes them before each launch (condition InvalidSpec), the CLI before anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from trainsweep.api.reserved import RUNTIME_ENV_KEYS, reserved
from trainsweep.api.space import grid_size, why_outside
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.validate import Problem, same, shown

MAX_CONFIG_BYTES = 16 * 1024
MAX_TRIALS = 10_000
MAX_GP_TRIALS = 500
_VALUE_FROM = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_spec(spec: TrainSweepSpec) -> list[Problem]:
    """All that is wrong between the fields of a spec, as (field path, message) pairs."""
    checks = (
        _values,
        _steps,
        _points,
        _grid,
        _algorithm,
        _config,
        _env,
        _runtime_env,
        _not_after,
        _class_independent_storage,
    )
    return [problem for check in checks for problem in check(spec)]


def _values(spec: TrainSweepSpec) -> Iterator[Problem]:
    for p, parameter in enumerate(spec.search.parameters):
        values = parameter.categorical.values if parameter.categorical is not None else []
        for i, value in enumerate(values):
            first = next(j for j, other in enumerate(values) if same(value, other))
            if first < i:
                path = f"spec.search.parameters[{p}].categorical.values[{i}]"
                yield path, f"{shown(value)} is the same value as {shown(values[first])} at [{first}]: remove one"


def _steps(spec: TrainSweepSpec) -> Iterator[Problem]:
    for i, parameter in enumerate(spec.search.parameters):
        span, path = parameter.float_, f"spec.search.parameters[{i}].float"
        # Below the distance of neighbouring doubles a range has no value between its ends and a step does nothing.
        if span is not None and span.step is not None and span.min + span.step == span.min:
            yield f"{path}.step", f"{span.step} is too small beside {span.min}: the values would not differ"
        if span is not None and span.max - span.min == float("inf"):
            yield f"{path}.max", "the range is too wide for a floating-point number"


def _points(spec: TrainSweepSpec) -> Iterator[Problem]:
    known = {parameter.name: parameter for parameter in spec.search.parameters}
    for i, point in enumerate(spec.search.initial_points):
        path = f"spec.search.initialPoints[{i}]"
        for name in known:
            if name not in point:
                yield path, f"gives no value for {name}: each point needs every parameter"
        for name, value in point.items():
            if name not in known:
                yield f"{path}.{name}", "is no parameter of the search: remove it, or add the parameter"
            elif problem := why_outside(known[name], value):
                yield f"{path}.{name}", problem
    points = spec.search.initial_points
    for i, point in enumerate(points):
        for j in range(i):
            if point.keys() == points[j].keys() and all(same(point[k], points[j][k]) for k in point):
                yield f"spec.search.initialPoints[{i}]", f"is the same point as [{j}]: remove one of them"
    if spec.trials.count is not None and len(points) > spec.trials.count:
        yield (
            "spec.search.initialPoints",
            f"has {len(points)} points for {spec.trials.count} trials: raise trials.count",
        )


def _grid(spec: TrainSweepSpec) -> Iterator[Problem]:
    if spec.search.algorithm.grid is None:
        return
    if spec.search.initial_points:
        yield "spec.search.initialPoints", "a grid tries every point already: remove initialPoints"
    size = grid_size(spec.search.parameters)
    if size is None:
        yield "spec.search.parameters", "a grid needs a step for each float: give it one, or choose random or qmc"
    elif spec.trials.count is not None and spec.trials.count != size:
        yield "spec.trials.count", f"must be the size of the grid, which is {size}: set it so, or leave it out"
    elif size > MAX_TRIALS:
        yield "spec.search.parameters", f"the grid has {size} points, at most {MAX_TRIALS} are possible: larger steps"
    elif spec.trials.max_concurrent > size:
        yield "spec.trials.maxConcurrent", f"must not be greater than the size of the grid, which is {size}"


def _algorithm(spec: TrainSweepSpec) -> Iterator[Problem]:
    # A Gaussian process takes time with the cube of its observations: beyond this a proposal takes minutes.
    if spec.search.algorithm.gp is not None and (spec.trials.count or 0) > MAX_GP_TRIALS:
        message = f"gp is for few, expensive trials, at most {MAX_GP_TRIALS}: choose tpe or cmaes, or fewer trials"
        yield "spec.trials.count", message


def _config(spec: TrainSweepSpec) -> Iterator[Problem]:
    size = len(json.dumps(spec.training.config, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MAX_CONFIG_BYTES:
        yield "spec.training.config", f"has {size} bytes, at most {MAX_CONFIG_BYTES} are possible: put it into a file"
    for name in spec.training.config:
        if any(parameter.name == name for parameter in spec.search.parameters):
            yield f"spec.training.config.{name}", "is a parameter of the search too: remove one of them"
    yield from _exact(spec.training.config, "spec.training.config")


def _exact(value: Any, path: str) -> Iterator[Problem]:
    """Integers beyond 2^53 lose their last digits in every reader that knows only doubles."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _exact(child, f"{path}.{name}")
    elif isinstance(value, list):
        for i, child in enumerate(value):
            yield from _exact(child, f"{path}[{i}]")
    elif isinstance(value, int) and abs(value) > 2**53 and int(float(value)) != value:
        yield path, f"{shown(value)} is beyond 2^53 and would lose digits on its way: write it as a string"


def _env(spec: TrainSweepSpec) -> Iterator[Problem]:
    for i, variable in enumerate(spec.training.env):
        path = f"spec.training.env[{i}]"
        advice = reserved(variable.name)
        if advice:
            yield f"{path}.name", f"{variable.name} is reserved: {advice}"
        if (variable.value is None) == (variable.value_from is None):
            yield path, "set exactly one of value or valueFrom"
        for source in variable.value_from or {}:
            if source not in _VALUE_FROM:
                yield f"{path}.valueFrom.{source}", f"is none of {', '.join(_VALUE_FROM)}"
    for i, entry in enumerate(spec.training.env_from):
        advice = reserved(f"{entry.prefix}X") if entry.prefix else ""
        if advice:
            yield f"spec.training.envFrom[{i}].prefix", f"{entry.prefix} is reserved: {advice}"


def _runtime_env(spec: TrainSweepSpec) -> Iterator[Problem]:
    path = "spec.training.runtimeEnv"
    for key in spec.training.runtime_env:
        if key not in RUNTIME_ENV_KEYS:
            yield f"{path}.{key}", f"may not be set: possible are {', '.join(RUNTIME_ENV_KEYS)}"
    variables = spec.training.runtime_env.get("env_vars", {})
    if not isinstance(variables, dict):
        yield f"{path}.env_vars", f"must be a map of names to strings, got {shown(variables)}"
        return
    for name, value in variables.items():
        advice = reserved(name, in_runtime_env=True)
        if advice:
            yield f"{path}.env_vars.{name}", f"{name} is reserved: {advice}"
        if not _ENV_NAME.fullmatch(name):
            yield f"{path}.env_vars.{name}", "is no name of an environment variable"
        if not isinstance(value, str):
            yield f"{path}.env_vars.{name}", f"must be a string, got {shown(value)}: quote it"
    if "pip" in spec.training.runtime_env and "uv" in spec.training.runtime_env:
        yield f"{path}.uv", "pip and uv exclude each other: remove one of them"


def _not_after(spec: TrainSweepSpec) -> Iterator[Problem]:
    text = spec.deadlines.not_after
    if text is None:
        return
    try:
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        yield "spec.deadlines.notAfter", f"{text} is no date and time: {error}"


def _class_independent_storage(spec: TrainSweepSpec) -> Iterator[Problem]:
    # The pattern allows a '..' segment and a bucket name that S3 would not: neither may reach a key.
    segments = spec.storage.uri.removeprefix("s3://").split("/")
    if any(segment in (".", "..") for segment in segments):
        yield "spec.storage.uri", "must not hold '.' or '..' as a segment"
    if ".." in segments[0]:
        yield "spec.storage.uri", "the bucket's name must not hold two dots in a row"
