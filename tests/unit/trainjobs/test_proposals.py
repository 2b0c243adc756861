"""Determinism: what a kill and a resume may change in proposals, which is nothing wherever the order of results is kept."""

import random

import pytest

from tests.unit.trainjobs.builders import sweep
from trainjobs.filestore import FileStore
from trainjobs.proposals import REPLAY_LIMIT, Proposals
from trainjobs.records import FINAL, Records
from trainsweep.contract.layout import parse_uri

pytestmark = pytest.mark.slow

NUMBERS = [
    {"name": "x", "float": {"min": -5, "max": 5}},
    {"name": "lr", "float": {"min": 1e-4, "max": 1, "log": True}},
    {"name": "n", "int": {"min": 1, "max": 9}},
]
STEPS = [
    {"name": "a", "categorical": {"values": ["u", "v"]}},
    {"name": "b", "float": {"min": 0, "max": 1, "step": 0.1}},
]
ALGORITHMS = {
    "random": {"random": {"seed": 3}},
    "grid": {"grid": {}},
    "qmc": {"qmc": {"seed": 3}},
    "tpe": {"tpe": {"seed": 3, "startupTrials": 4}},
    "tpe-univariate": {"tpe": {"seed": 3, "startupTrials": 4, "multivariate": False}},
    "cmaes": {"cmaes": {"seed": 3, "populationSize": 4}},
    "gp": {"gp": {"seed": 3, "startupTrials": 4}},
}
BY_INDEX, LEARNING = ("random", "grid", "qmc"), ("tpe", "tpe-univariate", "cmaes", "gp")


class Attempts:
    """A sweep without Ray: trials run in a seeded order, every attempt has a record of its own over the same store."""

    def __init__(self, root, name, *, concurrent=1, count=16, points=(), mode="Minimize"):
        parameters = STEPS if name == "grid" else NUMBERS
        self.concurrent, self.store = concurrent, FileStore(parse_uri(f"file://{root}"))
        self.changes = {
            "search": {"algorithm": ALGORITHMS[name], "parameters": parameters, "initialPoints": list(points)},
            "trials": {"count": 22 if name == "grid" else count, "maxConcurrent": concurrent},
            "objective": {"metric": "loss", "mode": mode},
        }
        self.attempt = 0

    def resume(self):
        """A new attempt: nothing but the store is left."""
        self.attempt += 1
        self.sweep = sweep(attempt=self.attempt, uri="s3://bucket/x", **self.changes)
        self.records = Records(self.store, self.sweep)
        self.records.load()
        self.proposals = self.sweep.proposals
        self.proposals.replay(self.records)
        return self

    def run(self, results: int | None = None, seed: int = 0):
        """Trials until so many results are in; then the process is gone, with what was written so far."""
        order = random.Random(seed)  # noqa: S311  # no secret is drawn
        left, running = self.records.unfinished(), []
        while (left or running) and results != 0:
            while left and len(running) < self.concurrent:
                index = left.pop(0)
                if self.records.get(index) is None:
                    self.records.propose(index, self.proposals.propose(index), self.proposals.told)
                running.append(index)
            index = running.pop(order.randrange(len(running)))
            value = objective(self.records.get(index).parameters)
            self.records.report(index, 1, value)
            self.records.update(index, state="Succeeded")
            self.records.update(index, order=self.proposals.tell(index, value))
            self.records.flush()
            results = None if results is None else results - 1
        return self

    @property
    def parameters(self):
        return [r.parameters for r in self.records]


def objective(parameters):
    return sum((v - 0.3) ** 2 if isinstance(v, float) else len(str(v)) for v in parameters.values())


@pytest.mark.parametrize("name", BY_INDEX)
def test_by_index_nothing_changes_with_concurrency_kill_or_resume(tmp_path, name):
    whole = Attempts(tmp_path / "a", name).resume().run().parameters
    torn = Attempts(tmp_path / "b", name, concurrent=4)
    torn.resume().run(3, seed=1).resume().run(5, seed=2).resume().run(seed=3)
    assert torn.parameters == whole


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "Minimize") for name in LEARNING), *((name, "Maximize") for name in LEARNING[:3])]
)
def test_one_at_a_time_nothing_changes_with_kill_and_resume(tmp_path, name, mode):
    count = 7 if name == "gp" else 16
    whole = Attempts(tmp_path / "a", name, count=count, mode=mode).resume().run().parameters
    torn = Attempts(tmp_path / "b", name, count=count, mode=mode)
    torn.resume().run(2).resume().run(3).resume().run()
    assert torn.parameters == whole


@pytest.mark.parametrize("name", LEARNING)
def test_beside_each_other_proposed_points_stay_and_results_are_counted_equal(tmp_path, name):
    count = 7 if name == "gp" else 16
    torn = Attempts(tmp_path, name, concurrent=3, count=count).resume().run(5, seed=1)
    before, told = torn.parameters, torn.proposals.told
    torn.resume()
    assert torn.parameters == before
    assert torn.proposals.told == told == 5
    assert torn.proposals._study._exact, "asked again in the same order, the same answers come"
    torn.run(seed=2)
    assert torn.parameters[: len(before)] == before
    assert sorted(r.order for r in torn.records) == list(range(1, count + 1))


def test_initial_points_are_proposed_once_over_all_attempts(tmp_path):
    points = [{"x": 1.0, "lr": 0.1, "n": 2}, {"x": 2.0, "lr": 0.2, "n": 3}]
    for name in ("random", "tpe", "cmaes"):
        torn = Attempts(tmp_path / name, name, points=points, count=8)
        torn.resume().run(1).resume().run()
        assert torn.parameters[:2] == points
        assert (
            torn.parameters == Attempts(tmp_path / f"{name}-2", name, points=points, count=8).resume().run().parameters
        )


def test_a_result_that_was_not_numbered_before_the_kill_is_told_all_the_same(tmp_path):
    torn = Attempts(tmp_path, "tpe").resume().run(6)
    torn.records.update(5, order=None)
    torn.records.flush()
    torn.resume()
    assert torn.proposals.told == 6
    assert torn.records.get(5).order == 6


def test_a_record_of_another_optuna_wins_over_what_is_proposed_now(tmp_path, caplog):
    torn = Attempts(tmp_path, "tpe").resume().run(6)
    other = {**torn.records.get(3).parameters, "x": 1.25}
    torn.records.propose(3, other, told=3)
    torn.records.update(3, state="Succeeded", best_value=0.5, order=4)
    torn.records.flush()
    torn.resume()
    assert "trial 3 is proposed otherwise than it was recorded" in caplog.text
    assert torn.records.get(3).parameters == other
    torn.run()
    assert all(r.state in FINAL for r in torn.records)


@pytest.mark.parametrize("name", ["tpe", "cmaes"])
def test_many_records_become_observations_and_two_resumes_agree(tmp_path, name, monkeypatch):
    torn = Attempts(tmp_path, name).resume().run(8)
    monkeypatch.setitem(REPLAY_LIMIT, name, 5)
    asked = []
    monkeypatch.setattr(Proposals, "propose", lambda self, index: asked.append(index))
    torn.resume()
    monkeypatch.undo()
    monkeypatch.setitem(REPLAY_LIMIT, name, 5)
    assert asked == []
    one, other = torn.resume().proposals.propose(8), torn.resume().proposals.propose(8)
    assert one == other
    assert torn.proposals.told == 8
