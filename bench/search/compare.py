"""Known functions, minimised by Optuna itself and through `trainjobs.proposals`, with the same seeds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainjobs.proposals import Proposals
from trainjobs.space import Space
from trainsweep.api.search import Search

Point = dict[str, float]


def branin(p: Point) -> float:
    """Three minima of 0.397887."""
    x, y = p["x0"], p["x1"]
    b, c, t = 5.1 / (4 * math.pi**2), 5 / math.pi, 1 / (8 * math.pi)
    return (y - b * x * x + c * x - 6) ** 2 + 10 * (1 - t) * math.cos(x) + 10


_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_SHAPES = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(p: Point) -> float:
    """Six minima, the lowest -3.32237."""
    total = 0.0
    for weight, shape, centre in zip(_WEIGHTS, _SHAPES, _CENTRES, strict=True):
        inner = sum(a * (p[f"x{j}"] - c) ** 2 for j, (a, c) in enumerate(zip(shape, centre, strict=True)))
        total -= weight * math.exp(-inner)
    return total


def rosenbrock8(p: Point) -> float:
    """A curved valley in eight dimensions, the minimum of 0 at ones."""
    x = [p[f"x{j}"] for j in range(8)]
    return sum(100 * (x[j + 1] - x[j] ** 2) ** 2 + (1 - x[j]) ** 2 for j in range(7))


@dataclass(frozen=True)
class Function:
    """A function and its box."""

    name: str
    value: Callable[[Point], float]
    bounds: tuple[tuple[float, float], ...]


FUNCTIONS = (
    Function("Branin", branin, ((-5, 10), (0, 15))),
    Function("Hartmann-6", hartmann6, ((0, 1),) * 6),
    Function("Rosenbrock-8", rosenbrock8, ((-2, 2),) * 8),
)
ALGORITHMS = ("tpe", "cmaes", "gp")


@dataclass(frozen=True)
class Searched:
    """One search: the values in order, and the seconds that the proposals took."""

    values: tuple[float, ...]
    seconds: float


def _sampler(algorithm: str, seed: int) -> Any:
    import optuna

    samplers = optuna.samplers
    return {"tpe": samplers.TPESampler, "cmaes": samplers.CmaEsSampler, "gp": samplers.GPSampler}[algorithm](seed=seed)


def direct(function: Function, algorithm: str, seed: int, trials: int) -> Searched:
    """As a user of Optuna writes it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        return function.value({f"x{j}": trial.suggest_float(f"x{j}", *b) for j, b in enumerate(function.bounds)})

    study, start = optuna.create_study(sampler=_sampler(algorithm, seed)), time.perf_counter()
    study.optimize(objective, n_trials=trials)
    return Searched(tuple(t.value for t in study.trials), time.perf_counter() - start)


def through_ours(function: Function, algorithm: str, seed: int, trials: int) -> Searched:
    """As the driver does it, one trial at a time."""
    parameters = [{"name": f"x{j}", "float": {"min": a, "max": b}} for j, (a, b) in enumerate(function.bounds)]
    search = Search.model_validate({"algorithm": {algorithm: {"seed": seed}}, "parameters": parameters})
    proposals = Proposals(Space(search), maximize=False, concurrent=1)
    values, start = [], time.perf_counter()
    for index in range(trials):
        value = function.value(proposals.propose(index))
        proposals.tell(index, value)
        values.append(value)
    return Searched(tuple(values), time.perf_counter() - start)
