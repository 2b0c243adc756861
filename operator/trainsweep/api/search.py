"""`spec.objective`, `spec.search` and `spec.trials`: what is optimised, over which space, with how many trials."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from trainsweep.api.algorithms import Algorithm
from trainsweep.api.base import ApiModel, Rule, schema
from trainsweep.api.stopping import EarlyStopping, NumberOrPercentage, Stop

Scalar = bool | int | float | Annotated[str, Field(max_length=256)]
ParameterName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$")]


class Mode(StrEnum):
    """Direction of the objective."""

    MINIMIZE = "Minimize"
    MAXIMIZE = "Maximize"


class Objective(ApiModel):
    """What is optimised."""

    metric: str = Field(
        min_length=1,
        max_length=128,
        pattern=r"^\S(.*\S)?$",
        description="Name of the metric, exactly as the training loop reports it.",
    )
    mode: Mode = Field(description="Minimize or Maximize.")
    goal: float | None = Field(
        default=None, description="The sweep ends well as soon as a trial's committed report reaches this value."
    )


class FloatRange(ApiModel):
    """A floating-point range, both ends included."""

    min: float = Field(description="Lower end.")
    max: float = Field(description="Upper end; must be greater than min.")
    log: bool = Field(default=False, description="Draw on a logarithmic scale; min must then be above 0.")
    step: float | None = Field(
        default=None, gt=0, description="Distance of the values; the upper end is cut to the grid."
    )

    rules: ClassVar = (
        Rule("self.min < self.max", "must be less than max: for one fixed value use training.config", ".min"),
        Rule("!has(self.log) || !self.log || self.min > 0.0", "must be above 0 when log is true", ".min"),
        Rule(
            "!has(self.step) || !has(self.log) || !self.log", "step does not go with log: remove one of them", ".step"
        ),
        Rule("!has(self.step) || self.step <= self.max - self.min", "must not be greater than max - min", ".step"),
    )


class IntRange(ApiModel):
    """An integer range, both ends included."""

    min: int = Field(ge=-(2**53), le=2**53, description="Lower end.")
    max: int = Field(ge=-(2**53), le=2**53, description="Upper end; must be greater than min.")
    log: bool = Field(default=False, description="Draw on a logarithmic scale; min must then be at least 1.")
    step: int | None = Field(
        default=None, ge=1, le=2**53, description="Distance of the values; the upper end is cut to the grid."
    )

    rules: ClassVar = (
        Rule("self.min < self.max", "must be less than max: for one fixed value use training.config", ".min"),
        Rule("!has(self.log) || !self.log || self.min > 0", "must be at least 1 when log is true", ".min"),
        Rule(
            "!has(self.step) || !has(self.log) || !self.log", "step does not go with log: remove one of them", ".step"
        ),
        Rule("!has(self.step) || self.step <= self.max - self.min", "must not be greater than max - min", ".step"),
    )


class Categorical(ApiModel):
    """One of several values, without an order."""

    # CEL cannot see values without a type: bounds speak for them here, `trainsweep.api.checks` for duplicates. A list
    # of type set would refuse duplicates at once, but may be reordered under an immutable rule, and order makes a grid.

    values: list[Scalar] = Field(
        min_length=2,
        max_length=64,
        description="The values: strings, numbers or booleans, none twice (1 and 1.0 are one value, true is another).",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "atomic"}),
    )


class Parameter(ApiModel):
    """One dimension of the search space: exactly one of float, int or categorical."""

    name: ParameterName = Field(description="Name under which the loop finds the value in its config.")
    float_: FloatRange | None = Field(default=None, alias="float", description="A floating-point range.")
    int_: IntRange | None = Field(default=None, alias="int", description="An integer range.")
    categorical: Categorical | None = Field(default=None, description="One of several values.")

    rules: ClassVar = (
        Rule(
            "[has(self.float), has(self.int), has(self.categorical)].filter(x, x).size() == 1",
            "set exactly one of float, int or categorical",
        ),
    )


class WarmStart(ApiModel):
    """What an earlier run learned."""

    run_uri: str = Field(
        alias="runURI",
        min_length=1,
        max_length=1024,
        pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|file://)(/[^/?#\s]+)+/?$",
        description="The earlier run, s3://bucket/prefix/namespace/name/run as its status.runURI says, below a prefix "
        "that the class allows. Its finished trials are observations of this search.",
    )


class Search(ApiModel):
    """The search space and how it is searched."""

    algorithm: Algorithm = Field(
        description="How trials are proposed: exactly one of random, grid, qmc, tpe, cmaes or gp."
    )
    parameters: list[Parameter] = Field(
        min_length=1,
        max_length=32,
        description="The dimensions of the search space.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    )
    initial_points: list[Annotated[dict[ParameterName, Scalar], Field(max_length=32)]] = Field(
        default_factory=list,
        max_length=32,
        description="Known good points, tried first. Each gives a value for every parameter.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "atomic"}),
    )
    warm_start: WarmStart | None = Field(
        default=None, description="Trials of an earlier run as observations, for tpe, cmaes and gp."
    )

    rules: ClassVar = (
        Rule(
            "!has(self.algorithm.grid) || self.parameters.all(p, has(p.categorical) || "
            "(has(p.float) && has(p.float.step)) || (has(p.int) && (!has(p.int.log) || !p.int.log)))",
            "a grid needs categorical parameters, ints without log, or floats with a step",
            ".parameters",
        ),
        Rule(
            "!has(self.algorithm.cmaes) || self.parameters.all(p, !has(p.categorical))",
            "cmaes takes numbers only: choose tpe, gp or qmc, or search the categorical parameters in a sweep before",
            ".parameters",
        ),
        Rule(
            "!has(self.algorithm.cmaes) || self.parameters.size() >= 2",
            "cmaes needs at least two parameters: choose tpe or gp",
            ".parameters",
        ),
        Rule(
            "!has(self.warmStart) || has(self.algorithm.tpe) || has(self.algorithm.cmaes) || has(self.algorithm.gp)",
            "only tpe, cmaes and gp learn from earlier trials: choose one of them, or remove warmStart",
            ".warmStart",
        ),
    )


class Trials(ApiModel):
    """How many trials, how many at a time, and when one ends."""

    count: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Number of trials. For a grid it may be left out; if given it must be the size of the grid.",
    )
    max_concurrent: int = Field(default=1, ge=1, le=256, description="Number of trials that run at the same time.")
    max_failed: NumberOrPercentage | None = Field(
        default=None,
        description="The sweep ends when more trials than this have failed for good: a number, or a percentage of all "
        'trials such as "20%", rounded down. Absent: it ends when none can succeed.',
    )
    early_stopping: EarlyStopping | None = Field(default=None, description="Which trials are ended early.")
    stop: Stop | None = Field(default=None, description="When one trial is complete.")

    rules: ClassVar = (
        Rule(
            "!has(self.count) || !has(self.maxConcurrent) || self.maxConcurrent <= self.count",
            "must not be greater than count",
            ".maxConcurrent",
        ),
        Rule(
            "!has(self.count) || !has(self.maxFailed) || type(self.maxFailed) != int || self.maxFailed <= self.count",
            "must not be greater than count",
            ".maxFailed",
        ),
    )
