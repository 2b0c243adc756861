"""Search and stopping inside of real Tune and Train: who is proposed, who is stopped, what the record says afterwards."""

import pytest

from tests.local.harness import ROOT, Run, example

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]

POINTS = [{"x": 0.1, "y": 0.1}, {"x": 5.0, "y": 5.0}]


def test_initial_points_come_first_the_bad_one_is_stopped_early_and_flat_ones_are_complete(tmp_path, cluster):
    spec = example("tiny")
    number = {"min": 0, "max": 9}
    spec["search"] = {
        "algorithm": {"cmaes": {"seed": 1}},
        "parameters": [{"name": "x", "float": number}, {"name": "y", "float": number}],
        "initialPoints": POINTS,
    }
    spec["trials"] = {
        "count": 3,
        "maxConcurrent": 1,
        "maxFailed": "50%",
        "earlyStopping": {"median": {"minTrials": 1}},
        "stop": {"plateau": {"epochs": 2}},
    }
    spec["training"] = {**spec["training"], "entrypoint": "curve:train_loop", "config": {"epochs": 9}}
    run = Run(tmp_path, spec, ROOT / "tests" / "local" / "loops", name="curve")
    try:
        run.start(cluster=cluster)
        receipt, digest = run.receipt()
        trials = run.trials()
        assert [t["parameters"] for t in trials[:2]] == POINTS
        assert all(0 <= value <= 9 for value in trials[2]["parameters"].values())
        assert trials[2]["parameters"] not in POINTS, "after the points the algorithm proposes"
        assert [t["state"] for t in trials[:2]] == ["Succeeded", "EarlyStopped"]
        assert [t["step"] for t in trials[:2]] == [5, 1], "two epochs without improvement after the third"
        assert trials[1]["rungs"] == {"1": 11.0}
        assert [t["order"] for t in trials] == [1, 2, 3]
        assert [t["told"] for t in trials] == [0, 1, 2]
        assert receipt.best.trial == "t0000"
        run.answer(digest)
        assert run.end()["outcome"] == "Completed"
    finally:
        run.kill()
