"""`spec.search.algorithm`: how trials are proposed. Names and defaults are those that users of Optuna know."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from trainsweep.api.base import ApiModel, Rule

Seed = Annotated[int, Field(ge=0, le=4294967295)]


class Random(ApiModel):
    """Independent draws."""

    seed: Seed = Field(default=0, description="Seed of the draws: the same seed proposes the same trials.")


class Grid(ApiModel):
    """Every combination of the values, in order. Each parameter must be categorical, or an int or float with a step."""


class Sequence(StrEnum):
    """A low-discrepancy sequence."""

    SOBOL = "Sobol"
    HALTON = "Halton"


class Qmc(ApiModel):
    """Quasi-random points that cover the space evenly."""

    seed: Seed = Field(default=0, description="Seed of the scrambling; without it the points are always the same.")
    sequence: Sequence = Field(
        default=Sequence.SOBOL, description="Sobol (best with a power of two trials) or Halton; Sobol when absent."
    )
    scramble: bool = Field(
        default=True, description="Shift the points at random, so that the first is no corner; true when absent."
    )


class Tpe(ApiModel):
    """Tree-structured Parzen estimator (Optuna)."""

    seed: Seed = Field(default=0, description="Seed of the sampler.")
    startup_trials: int = Field(
        default=10, ge=1, le=1000, description="Number of random trials before the estimator is used."
    )
    multivariate: bool = Field(
        default=True,
        description="Model the parameters together, as Optuna 5 does, or each for itself; true when absent.",
    )


class CmaEs(ApiModel):
    """Covariance matrix adaptation (Optuna, cmaes): for numbers only, two at least."""

    seed: Seed = Field(default=0, description="Seed of the sampler.")
    startup_trials: int = Field(
        default=1, ge=1, le=1000, description="Number of random trials before the strategy is used."
    )
    population_size: int | None = Field(
        default=None, ge=4, le=1000, description="Trials of a generation; 4 + 3 ln(parameters) when absent."
    )


class Gp(ApiModel):
    """Gaussian process with expected improvement (Optuna): for few, expensive trials."""

    seed: Seed = Field(default=0, description="Seed of the sampler.")
    startup_trials: int = Field(
        default=10, ge=1, le=1000, description="Number of random trials before the process is used."
    )


class Algorithm(ApiModel):
    """How trials are proposed: exactly one of random, grid, qmc, tpe, cmaes or gp."""

    random: Random | None = Field(default=None, description="Independent draws.")
    grid: Grid | None = Field(default=None, description="Every combination of the values.")
    qmc: Qmc | None = Field(default=None, description="Quasi-random points that cover the space evenly.")
    tpe: Tpe | None = Field(default=None, description="Tree-structured Parzen estimator.")
    cmaes: CmaEs | None = Field(default=None, description="Covariance matrix adaptation; numbers only.")
    gp: Gp | None = Field(default=None, description="Gaussian process; few, expensive trials.")

    rules: ClassVar = (
        Rule(
            "[has(self.random), has(self.grid), has(self.qmc), has(self.tpe), has(self.cmaes), has(self.gp)]"
            ".filter(x, x).size() == 1",
            "set exactly one of random, grid, qmc, tpe, cmaes or gp",
        ),
    )
