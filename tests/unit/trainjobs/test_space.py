"""Proposals: typed, deterministic, within the space, none twice in a grid."""

import pytest

from trainjobs.space import Space, SpaceError
from trainsweep.api.search import Search


def space(algorithm, parameters, points=()):
    return Space(
        Search.model_validate({"algorithm": algorithm, "parameters": parameters, "initialPoints": list(points)})
    )


MIXED = [
    {"name": "lr", "float": {"min": 1e-5, "max": 1e-1, "log": True}},
    {"name": "drop", "float": {"min": 0.0, "max": 0.5, "step": 0.1}},
    {"name": "width", "int": {"min": 8, "max": 64, "step": 8}},
    {"name": "depth", "int": {"min": 1, "max": 64, "log": True}},
    {"name": "kind", "categorical": {"values": ["a", True, 1, 2.5]}},
]


@pytest.mark.parametrize("algorithm", [{"random": {"seed": 7}}, {"tpe": {"seed": 7, "startupTrials": 3}}])
def test_values_lie_in_the_space_and_keep_their_types(algorithm):
    here = space(algorithm, MIXED)
    for index in range(20):
        p = here.propose(index)
        assert list(p) == ["lr", "drop", "width", "depth", "kind"]
        assert isinstance(p["lr"], float)
        assert 1e-5 <= p["lr"] <= 1e-1
        assert isinstance(p["drop"], float)
        assert abs(p["drop"] * 10 - round(p["drop"] * 10)) < 1e-9
        assert type(p["width"]) is int
        assert p["width"] in range(8, 65, 8)
        assert type(p["depth"]) is int
        assert 1 <= p["depth"] <= 64
        assert any(type(p["kind"]) is type(v) and p["kind"] == v for v in ["a", True, 1, 2.5])
        here.observe(index, float(index), maximize=False)


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


def test_tpe_continues_from_what_earlier_attempts_recorded():
    """Same history, same proposal: whether drawn in one go or recalled by a later attempt."""
    algorithm = {"tpe": {"seed": 1, "startupTrials": 2}}
    parameters = [{"name": "x", "float": {"min": 0, "max": 10}}]
    one = space(algorithm, parameters)
    drawn = []
    for index in range(6):
        p = one.propose(index)
        drawn.append(p)
        one.observe(index, (p["x"] - 3) ** 2, maximize=False)
    later = space(algorithm, parameters)
    for index, p in enumerate(drawn):
        later.recall(index, p)
        later.observe(index, (p["x"] - 3) ** 2, maximize=False)
    assert later.propose(6) == one.propose(6)


def test_tpe_learns_the_direction():
    parameters = [{"name": "x", "float": {"min": 0, "max": 1}}]
    for maximize, wanted in ((True, 0.8), (False, 0.2)):
        here = space({"tpe": {"seed": 5, "startupTrials": 10}}, parameters)
        late = []
        for index in range(40):
            x = here.propose(index)["x"]
            here.observe(index, x, maximize=maximize)
            late.append(x)
        mean = sum(late[25:]) / len(late[25:])
        assert mean > wanted if maximize else mean < wanted


def test_a_failed_trial_teaches_nothing_and_breaks_nothing():
    here = space({"tpe": {"startupTrials": 1}}, [{"name": "x", "float": {"min": 0, "max": 1}}])
    for index in range(5):
        here.propose(index)
        here.observe(index, None if index % 2 else float("nan"), maximize=False)
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
    points = [here.propose(i) for i in range(here.count(None))]
    assert len(points) == 2 * 3 * 3 == len({str(p) for p in points})
    assert points[0] == {"a": "x", "b": 1, "c": 0.1}
    assert points[2] == {"a": "x", "b": 1, "c": 0.3}  # not 0.30000000000000004
    assert points[-1] == {"a": "y", "b": 5, "c": 0.3}
    with pytest.raises(SpaceError, match="no point 18"):
        here.propose(18)


def test_a_count_that_contradicts_the_grid_is_refused():
    here = space({"grid": {}}, [{"name": "a", "categorical": {"values": [1, 2, 3]}}])
    assert here.count(3) == 3
    with pytest.raises(SpaceError, match=r"trials.count is 4, but the grid has 3 points"):
        here.count(4)


def test_initial_points_come_first_with_the_types_of_the_space():
    parameters = [{"name": "lr", "float": {"min": 0, "max": 1}}, {"name": "n", "int": {"min": 1, "max": 9}}]
    for algorithm in ({"random": {}}, {"tpe": {}}):
        here = space(algorithm, parameters, [{"lr": 1, "n": 3.0}, {"lr": 5, "n": 2}])
        first = here.propose(0)
        assert first == {"lr": 1.0, "n": 3}
        assert (type(first["lr"]), type(first["n"])) == (float, int)
        assert here.propose(1) == {"lr": 5.0, "n": 2}  # outside of the range: known good all the same
        here.observe(1, 0.5, maximize=False)
        assert here.propose(2)["lr"] <= 1


def test_an_initial_point_of_the_wrong_kind_is_named():
    here = space({"random": {}}, [{"name": "n", "int": {"min": 1, "max": 9}}], [{"n": 2.5}])
    with pytest.raises(SpaceError, match="n must be a whole number"):
        here.propose(0)
