"""Search is not made worse by the wrapper: value for value that of Optuna. The long form is `make bench-search`."""

import pytest

from bench.search.compare import FUNCTIONS, branin, direct, hartmann6, rosenbrock8, through_ours

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def one_thread():
    """Many small matrices: torch's threads only wait for each other on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


TRIALS = {"tpe": 25, "cmaes": 40, "gp": 12}
SHORT = [(f, a, s) for f in FUNCTIONS for a, s in (("tpe", 0), ("tpe", 1), ("cmaes", 0), ("cmaes", 1))]
SHORT += [(FUNCTIONS[1], "gp", 0)]


@pytest.mark.parametrize(("function", "algorithm", "seed"), SHORT, ids=lambda v: getattr(v, "name", str(v)))
def test_the_same_seed_gives_the_same_values_to_the_last_bit(function, algorithm, seed):
    trials = TRIALS[algorithm]
    assert through_ours(function, algorithm, seed, trials).values == direct(function, algorithm, seed, trials).values


def test_the_functions_are_those_of_the_literature():
    assert branin({"x0": 9.42478, "x1": 2.475}) == pytest.approx(0.397887, abs=1e-5)
    best = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)
    assert hartmann6({f"x{j}": v for j, v in enumerate(best)}) == pytest.approx(-3.32237, abs=1e-4)
    assert rosenbrock8({f"x{j}": 1.0 for j in range(8)}) == 0
