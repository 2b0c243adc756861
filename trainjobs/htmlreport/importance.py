"""Which parameters matter: Optuna's PED-ANOVA, which needs nothing that a training image lacks, and the direction."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any

from trainjobs.htmlreport.axes import place_of
from trainsweep.api.search import Parameter
from trainsweep.contract.documents import TrialRecord

logger = logging.getLogger(__name__)

FEWEST = 8
"""Fewer trials say nothing about importance."""
MOST = 1_000
"""Trials that are looked at: 10,000 would take seconds and say the same."""


def importances(parameters: Sequence[Parameter], records: Sequence[TrialRecord], *, maximize: bool) -> dict[str, float]:
    """The share of each parameter in what makes a trial one of the good ones; empty where too little is known.

    Args:
        parameters: the search space.
        records: trials; those without a value say nothing.
        maximize: whether more is better.

    Returns:
        Name to share, largest first; the shares add up to 1.
    """
    valued = [r for r in records if r.best_value is not None and math.isfinite(r.best_value)]
    valued = valued[:: math.ceil(len(valued) / MOST)] if len(valued) > MOST else valued
    if len(valued) < FEWEST or len({r.best_value for r in valued}) < 2:
        return {}
    try:
        import optuna
    except ImportError:
        return {}  # a report made where the driver is not installed

    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # experimental, and ranges cut to their step
            distributions = {p.name: _distribution(p) for p in parameters}
            study = optuna.create_study(direction="maximize" if maximize else "minimize")
            study.add_trials([t for r in valued if (t := _trial(parameters, distributions, r)) is not None])
            if len(study.trials) < FEWEST:
                return {}
            share = min(0.5, max(0.1, 4 / len(study.trials)))
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=share)
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except Exception as error:  # a picture less: never a reason to have no report
        logger.warning("importances: %s: %s", type(error).__name__, error)
        return {}
    finally:
        optuna.logging.set_verbosity(level)
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def _distribution(parameter: Parameter) -> Any:
    """As Optuna needs it here: only for its scale; the steps of a range do not matter for importance."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if parameter.categorical is not None:
        return CategoricalDistribution(list(range(len(parameter.categorical.values))))
    dimension = parameter.float_ or parameter.int_
    if dimension is None:
        raise ValueError(f"{parameter.name} has no range")
    return FloatDistribution(float(dimension.min), float(dimension.max), log=dimension.log)


def _trial(parameters: Sequence[Parameter], distributions: dict[str, Any], record: TrialRecord) -> Any:
    import optuna

    try:
        values = {p.name: place_of(p, record.parameters[p.name]) for p in parameters}
        return optuna.trial.create_trial(params=values, distributions=distributions, value=record.best_value)
    except (KeyError, ValueError, TypeError):
        return None  # a known good point outside of the ranges, or a conditional parameter


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation; None where it is not defined."""
    if len(pairs) < FEWEST:
        return None
    a, b = (_ranks([p[i] for p in pairs]) for i in (0, 1))
    mean = (len(pairs) - 1) / 2
    over = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    under = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return over / under if under > 0 else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0, the mean rank for ties."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for place in range(at, end + 1):
            out[order[place]] = (at + end) / 2
        at = end + 1
    return out
