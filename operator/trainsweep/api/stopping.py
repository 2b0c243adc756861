"""`spec.trials.earlyStopping` and `spec.trials.stop`: which trials end early, when one is complete, how many may fail."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from trainsweep.api.base import ApiModel, Rule, schema

Epochs = Annotated[int, Field(ge=1, le=1_000_000)]


def _grace_within() -> Rule:
    return Rule(
        "!has(self.graceEpochs) || self.graceEpochs <= self.maxEpochs",
        "must not be greater than maxEpochs",
        ".graceEpochs",
    )


class Asha(ApiModel):
    """Asynchronous successive halving on the reported `epoch`."""

    max_epochs: Epochs = Field(description="Epochs after which a trial is complete.")
    grace_epochs: Epochs = Field(default=1, description="Epochs before a trial may be stopped.")
    reduction_factor: int = Field(default=4, ge=2, le=64, description="At each rung one in this many trials goes on.")

    rules: ClassVar = (_grace_within(),)


class Hyperband(ApiModel):
    """Asynchronous Hyperband: several brackets of successive halving, each with a longer grace than the one before."""

    max_epochs: Epochs = Field(description="Epochs after which a trial is complete.")
    grace_epochs: Epochs = Field(
        default=1, description="Epochs before a trial of the first bracket may be stopped; the others wait longer."
    )
    reduction_factor: int = Field(
        default=3,
        ge=2,
        le=64,
        description="At each rung one in this many trials goes on; each bracket's grace is this many times longer.",
    )

    rules: ClassVar = (_grace_within(),)


class Median(ApiModel):
    """Stops a trial whose best objective is worse than the median of the others' running means at the same epoch."""

    grace_epochs: Epochs = Field(default=1, description="Epochs before a trial may be stopped.")
    min_trials: int = Field(
        default=3, ge=1, le=1000, description="Trials that must have come as far before one is stopped."
    )
    interval_epochs: Epochs = Field(
        default=1, description="Epochs between two looks. A trial is looked at 64 times at most."
    )


class EarlyStopping(ApiModel):
    """Which trials are ended early: exactly one of asha, hyperband or median."""

    asha: Asha | None = Field(default=None, description="Asynchronous successive halving.")
    hyperband: Hyperband | None = Field(default=None, description="Several brackets of successive halving.")
    median: Median | None = Field(default=None, description="Against the median of the other trials.")

    rules: ClassVar = (
        Rule(
            "[has(self.asha), has(self.hyperband), has(self.median)].filter(x, x).size() == 1",
            "set exactly one of asha, hyperband or median, or remove earlyStopping (pbt is not possible: checkpoints "
            "belong to one trial's own Train run, so that no trial can go on from another's)",
        ),
    )

    @property
    def name(self) -> str:
        """Which of them it is."""
        return "asha" if self.asha is not None else "hyperband" if self.hyperband is not None else "median"


class Plateau(ApiModel):
    """A trial is complete when its objective does not improve any more."""

    epochs: Epochs = Field(description="Epochs without improvement after which the trial ends.")
    min_delta: float = Field(
        default=0.0, ge=0, description="What counts as an improvement must be greater than this; 0 when absent."
    )


class Stop(ApiModel):
    """When one trial is complete: whichever comes first."""

    max_epochs: Epochs | None = Field(default=None, description="A trial ends after this `epoch`.")
    metric_threshold: float | None = Field(
        default=None, description="A trial ends once its objective is at least as good as this."
    )
    plateau: Plateau | None = Field(default=None, description="A trial ends once its objective does not improve.")

    rules: ClassVar = (
        Rule(
            "has(self.maxEpochs) || has(self.metricThreshold) || has(self.plateau)",
            "set maxEpochs, metricThreshold or plateau, or remove stop",
        ),
    )


PERCENTAGE = r"^(100|[1-9]?[0-9])%$"
NumberOrPercentage = Annotated[
    int | str,
    Field(
        json_schema_extra=schema(
            **{
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": PERCENTAGE,
                "minimum": 0,
                "maximum": 10_000,
                "maxLength": 4,
            }
        )
    ),
]
"""A number of trials, or a share of them such as "20%"."""


def failure_limit(limit: int | str | None, count: int) -> int | None:
    """`trials.maxFailed` as a number of trials: a share is rounded down."""
    if limit is None or isinstance(limit, int):
        return limit
    return int(limit.removesuffix("%")) * count // 100
