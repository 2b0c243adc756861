"""Warm start: an earlier run teaches, and whatever lies in its place instead is refused or left out, never believed."""

import json

import pytest

from tests.unit.trainjobs.builders import Place
from trainjobs import warmstart
from trainjobs.outcome import DriverError
from trainjobs.proposals import Observation
from trainsweep.contract import layout
from trainsweep.contract.documents import FailureReason

SPACE = [
    {"name": "x", "float": {"min": 0, "max": 1}},
    {"name": "n", "int": {"min": 1, "max": 9}},
]


def earlier(root, values, **changes):
    """A finished run with two parameters, and what this search does not know beside them."""
    place = Place(root, **changes)
    for index, value in enumerate(values):
        place.records.propose(index, {"x": index / 20, "n": 1 + index % 9, "other": "word"})
        place.records.report(index, 1, value)
        place.records.update(index, state="Succeeded")
    place.records.flush()
    place.store.put(layout.SWEEP, place.sweep.file.to_json())
    return place


def later(tmp_path, algorithm=None, uri=None, parameters=SPACE, **changes):
    search = {
        "algorithm": algorithm or {"tpe": {"seed": 1, "startupTrials": 3}},
        "parameters": parameters,
        "warmStart": {"runURI": uri or f"file://{tmp_path}/earlier"},
    }
    return Place(tmp_path / "later", search=search, **changes)


def load(place):
    return warmstart.load(place.store, place.sweep)


def test_finished_trials_become_observations_and_unknown_parameters_are_dropped(tmp_path):
    earlier(tmp_path / "earlier", [0.3, 0.1])
    assert load(later(tmp_path)) == [Observation({"x": 0.05, "n": 2}, 0.1), Observation({"x": 0.0, "n": 1}, 0.3)]


TPE, CMAES, GP = {"tpe": {"startupTrials": 5}}, {"cmaes": {}}, {"gp": {"startupTrials": 5}}


@pytest.mark.parametrize(("algorithm", "trials"), [(TPE, 5), (TPE, 12), (CMAES, 5), (CMAES, 12), (GP, 5)], ids=str)
def test_the_first_proposal_knows_them(tmp_path, algorithm, trials):
    """Cold and warm differ from the first own trial on, and the warm search is reproducible."""
    earlier(tmp_path / "earlier", [(i - 3) ** 2 / 10 for i in range(trials)])
    proposed = []
    for warm in (False, True, True):
        place = later(tmp_path, algorithm)
        place.sweep.proposals.warm(load(place) if warm else [])
        first = []
        for index in range(2):
            first.append(place.sweep.proposals.propose(index))
            place.sweep.proposals.tell(index, 0.5)
        proposed.append(first)
    assert proposed[1] == proposed[2]
    assert proposed[0] != proposed[1]


def test_a_later_attempt_learns_from_the_same_whatever_became_of_the_earlier_run(tmp_path):
    first = earlier(tmp_path / "earlier", [0.3, 0.1])
    found = load(later(tmp_path))
    first.store.delete_tree("")
    assert load(later(tmp_path)) == found


def test_what_cannot_teach_is_left_out_and_counted(tmp_path):
    place = earlier(tmp_path / "earlier", [0.1, 0.2, 0.3, 0.4])
    place.records.update(1, state="Failed")
    place.records.update(2, state="Running")
    place.records.flush()
    lines = (tmp_path / "earlier" / layout.TRIALS).read_bytes().splitlines()
    good = json.loads(lines[0])
    deep = b"[" * 5000 + b"]" * 5000
    lines += [
        b"\xff\xfe not json",
        b'{"index": 70, "parameters": ' + deep + b"}",
        json.dumps({**good, "index": 71, "bestValue": "NaN"}).encode(),
        json.dumps({**good, "index": 72, "parameters": {"x": 5.0, "n": 1}}).encode(),
        json.dumps({**good, "index": 73, "parameters": {"x": 0.5}}).encode(),
        json.dumps({**good, "index": 74, "parameters": {"x": "0.5", "n": 1}}).encode(),
        json.dumps({**good, "index": 75, "error": "e" * 70_000}).encode(),
    ]
    found, left_out = warmstart.usable(b"\n".join(lines), later(tmp_path).sweep.proposals.space)
    assert [o.value for o in found] == [0.1, 0.4]
    assert left_out == {
        "not finished well": 2,
        "unreadable": 4,
        "outside of this search's space": 2,
        "without n": 1,
    }


def test_gp_takes_the_best_hundred(tmp_path):
    earlier(tmp_path / "earlier", [i / 1000 for i in range(12)], trials={"count": 12})
    place = later(tmp_path, {"gp": {}})
    warmstart.MAX_OBSERVATIONS["gp"], before = 5, warmstart.MAX_OBSERVATIONS["gp"]
    try:
        assert [o.value for o in load(place)] == [0.0, 0.001, 0.002, 0.003, 0.004]
    finally:
        warmstart.MAX_OBSERVATIONS["gp"] = before


def _no_run(root):
    (root / "earlier").mkdir(parents=True)


def _other_metric(root):
    earlier(root / "earlier", [0.1], objective={"metric": "acc", "mode": "Maximize"})


def _nothing_usable(root):
    place = earlier(root / "earlier", [0.1])
    place.records.update(0, state="Failed")
    place.records.flush()


def _no_sweep(root):
    earlier(root / "earlier", [0.1]).store.put(layout.SWEEP, b"[]")


def _too_large(root):
    earlier(root / "earlier", [0.1]).store.put(layout.TRIALS, b"\n" * (warmstart.MAX_TRIALS_BYTES + 1))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_no_run, "there is no sweep.json below .*: give a run"),
        (_other_metric, "has the objective Maximize acc, this sweep has Minimize loss"),
        (_nothing_usable, r"no trial of .* can be used \(1 not finished well\)"),
        (_no_sweep, "sweep.json is none of ours"),
        (_too_large, "larger than 33554432 bytes"),
    ],
)
def test_a_run_that_cannot_be_used_is_permanent_and_says_why(tmp_path, make, words):
    make(tmp_path)
    with pytest.raises(DriverError, match=words) as error:
        load(later(tmp_path))
    assert error.value.reason is FailureReason.INVALID_SWEEP
    assert error.value.message.startswith("search.warmStart.runURI: ")


def test_without_a_warm_start_nothing_is_read_or_written(tmp_path):
    place = Place(tmp_path)
    assert load(place) == []
    assert place.store.get(layout.WARM_START) is None
