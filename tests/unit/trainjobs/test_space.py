"""Proposals: typed, deterministic, within the space, none twice in a grid."""

import pytest

from trainjobs.proposals import Proposals
from trainjobs.space import Space, SpaceError
from trainsweep.api.search import Search


def space(algorithm, parameters, points=(), maximize=False):
    search = Search.model_validate({"algorithm": algorithm, "parameters": parameters, "initialPoints": list(points)})
    return Proposals(Space(search), maximize=maximize, concurrent=1)


MIXED = [
    {"name": "lr", "float": {"min": 1e-5, "max": 1e-1, "log": True}},
    {"name": "drop", "float": {"min": 0.0, "max": 0.5, "step": 0.1}},
    {"name": "width", "int": {"min": 8, "max": 64, "step": 8}},
    {"name": "depth", "int": {"min": 1, "max": 64, "log": True}},
    {"name": "kind", "categorical": {"values": ["a", True, 1, 2.5]}},
]


@pytest.mark.parametrize(
    "algorithm",
    [
        {"random": {"seed": 7}},
        {"qmc": {"seed": 7}},
        {"qmc": {"seed": 7, "sequence": "Halton"}},
        {"tpe": {"seed": 7, "startupTrials": 3}},
        {"tpe": {"seed": 7, "startupTrials": 3, "multivariate": False}},
        {"gp": {"seed": 7, "startupTrials": 16}},
    ],
    ids=str,
)
def test_values_lie_in_the_space_and_keep_their_types(algorithm):
    here = space(algorithm, MIXED)
    for index in range(20):
        p = here.propose(index)
        assert list(p) == ["lr", "drop", "width", "depth", "kind"]
        assert isinstance(p["lr"], float)
        assert 1e-5 <= p["lr"] <= 1e-1
        assert isinstance(p["drop"], float)
        assert p["drop"] in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # C6: on the decimal grid, not 0.30000000000000004
        assert type(p["width"]) is int
        assert p["width"] in range(8, 65, 8)
        assert type(p["depth"]) is int
        assert 1 <= p["depth"] <= 64
        assert any(type(p["kind"]) is type(v) and p["kind"] == v for v in ["a", True, 1, 2.5])
        here.tell(index, float(index))


def test_true_and_one_are_two_values():
    here = space({"random": {}}, [{"name": "k", "categorical": {"values": [1, True]}}])
    assert {type(here.propose(i)["k"]) for i in range(30)} == {int, bool}


def test_random_depends_on_seed_and_index_only():
    one, other = space({"random": {"seed": 3}}, MIXED), space({"random": {"seed": 3}}, MIXED)
    forward = [one.propose(i) for i in range(6)]
    backward = [other.propose(i) for i in reversed(range(6))][::-1]
    assert forward == backward
    assert forward != [space({"random": {"seed": 4}}, MIXED).propose(i) for i in range(6)]
    assert len({str(p) for p in forward}) == 6


def test_tpe_learns_the_direction():
    parameters = [{"name": "x", "float": {"min": 0, "max": 1}}]
    for maximize in (True, False):
        here = space({"tpe": {"seed": 5, "startupTrials": 10}}, parameters, maximize=maximize)
        late = []
        for index in range(40):
            x = here.propose(index)["x"]
            here.tell(index, x)
            late.append(x)
        mean = sum(late[25:]) / len(late[25:])
        assert mean > 0.65 if maximize else mean < 0.35


def test_a_failed_trial_teaches_nothing_and_breaks_nothing():
    here = space({"tpe": {"startupTrials": 1}}, [{"name": "x", "float": {"min": 0, "max": 1}}])
    for index in range(5):
        here.propose(index)
        here.tell(index, None if index % 2 else float("nan"))
    assert 0 <= here.propose(5)["x"] <= 1


def test_grid_is_the_product_in_order_each_point_once():
    here = space(
        {"grid": {}},
        [
            {"name": "a", "categorical": {"values": ["x", "y"]}},
            {"name": "b", "int": {"min": 1, "max": 6, "step": 2}},
            {"name": "c", "float": {"min": 0.1, "max": 0.35, "step": 0.1}},
        ],
    )
    points = [here.propose(i) for i in range(here.space.count(None))]
    assert len(points) == 2 * 3 * 3 == len({str(p) for p in points})
    assert points[0] == {"a": "x", "b": 1, "c": 0.1}
    assert points[2] == {"a": "x", "b": 1, "c": 0.3}  # not 0.30000000000000004
    assert points[-1] == {"a": "y", "b": 5, "c": 0.3}
    with pytest.raises(SpaceError, match="no point 18"):
        here.propose(18)


def test_a_count_that_contradicts_the_grid_is_refused():
    here = space({"grid": {}}, [{"name": "a", "categorical": {"values": [1, 2, 3]}}])
    assert here.space.count(3) == 3
    with pytest.raises(SpaceError, match=r"trials.count is 4, but the grid has 3 points"):
        here.space.count(4)


@pytest.mark.parametrize("name", ["random", "qmc", "tpe", "cmaes", "gp"])
def test_initial_points_come_first_with_the_types_of_the_space(name):
    parameters = [{"name": "lr", "float": {"min": 0, "max": 1}}, {"name": "n", "int": {"min": 1, "max": 9}}]
    here = space({name: {}}, parameters, [{"lr": 1, "n": 3.0}, {"lr": 0.5, "n": 2}])
    first = here.propose(0)
    assert first == {"lr": 1.0, "n": 3}
    assert (type(first["lr"]), type(first["n"])) == (float, int)
    assert here.propose(1) == {"lr": 0.5, "n": 2}
    here.tell(1, 0.5)
    assert here.propose(2) != {"lr": 0.5, "n": 2}


@pytest.mark.parametrize(
    ("point", "words"),
    [({"n": 2.5}, r"\[0\].n: 2.5 is no whole number"), ({"n": 10}, "outside 1 to 9"), ({}, "no value for n")],
)
def test_an_initial_point_outside_of_the_space_is_named(point, words):
    with pytest.raises(SpaceError, match=words):
        space({"random": {}}, [{"name": "n", "int": {"min": 1, "max": 9}}], [point])


def test_qmc_is_the_sequence_of_optuna():
    """Optuna draws its first trial at random and takes the sequence from the second on; ours begins with it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for sequence in ("Sobol", "Halton"):
        here = space({"qmc": {"seed": 4, "sequence": sequence}}, MIXED)
        sampler = optuna.samplers.QMCSampler(qmc_type=sequence.lower(), scramble=True, seed=4)
        study = optuna.create_study(sampler=sampler)
        for index in range(-1, 8):
            trial = study.ask(here.space.distributions())
            study.tell(trial, 0.0)
            if index >= 0:
                assert here.propose(index) == here.space.from_optuna(trial.params)
