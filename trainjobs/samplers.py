"""Optuna's samplers as the spec asks for them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

from trainjobs.space import seed_of
from trainsweep.api.algorithms import Algorithm

MIN_SOURCE = 10
"""Fewer finished trials make no distribution for cmaes: it takes the best tenth."""


def index_sampler(algorithm: Algorithm, index: int, distributions: dict[str, Any]) -> Any:
    """A sampler whose next proposal is the one of this index: it needs no other, before or beside it."""
    import optuna

    if algorithm.qmc is None:
        seed = algorithm.random.seed if algorithm.random is not None else 0
        return optuna.samplers.RandomSampler(seed=seed_of(seed, index))
    options = algorithm.qmc
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental; its version is locked
        sampler = _qmc_at()(
            qmc_type=options.sequence.value.lower(),
            scramble=options.scramble,
            seed=options.seed,
            warn_independent_sampling=False,
        )
    sampler.index = index
    sampler.space = {name: d for name, d in distributions.items() if not d.single()}
    return sampler


@functools.cache
def _qmc_at() -> Any:
    import optuna

    class QmcAt(optuna.samplers.QMCSampler):
        """One point of the sequence. Optuna's own draws its first point at random and counts the others in the study."""

        index: int
        space: dict[str, Any]

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            """See BaseSampler."""
            return self.space

        def _find_sample_id(self, study: Any, search_space: dict[str, Any]) -> int:
            return self.index

    return QmcAt


def study_sampler(algorithm: Algorithm, seed: int, *, parallel: bool, source: Sequence[Any], maximize: bool) -> Any:
    """A sampler that learns from its study.

    Args:
        algorithm: one of tpe, cmaes and gp.
        seed: of the sampler; as Optuna would take it.
        parallel: whether trials run beside each other.
        source: finished trials of an earlier search, for cmaes. From ten on they are its first distribution; fewer say
            no more than where to begin.
        maximize: the direction of the objective.
    """
    import optuna

    best = (max if maximize else min)(source, key=lambda t: t.value, default=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # options that are experimental, too
        if algorithm.tpe is not None:
            return optuna.samplers.TPESampler(
                seed=seed,
                n_startup_trials=algorithm.tpe.startup_trials,
                multivariate=algorithm.tpe.multivariate,
                constant_liar=parallel,
            )
        if algorithm.cmaes is not None:
            return optuna.samplers.CmaEsSampler(
                seed=seed,
                n_startup_trials=algorithm.cmaes.startup_trials,
                popsize=algorithm.cmaes.population_size,
                source_trials=list(source) if len(source) >= MIN_SOURCE else None,
                x0=best.params if best is not None and len(source) < MIN_SOURCE else None,
                warn_independent_sampling=False,
            )
        if algorithm.gp is not None:
            return optuna.samplers.GPSampler(
                seed=seed, n_startup_trials=algorithm.gp.startup_trials, warn_independent_sampling=False
            )
    raise ValueError("none of tpe, cmaes and gp")
