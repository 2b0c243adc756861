"""Rules over reports, without a cluster: what is accepted, who is stopped early, when trial and sweep are complete."""

import math
import pickle
from types import SimpleNamespace

import pytest

from tests.unit.trainjobs.builders import Place

pytest.importorskip("ray.tune")

from trainjobs.records import Records
from trainjobs.trial import KEY, ReportError, check_report
from trainjobs.tunerun import Recorder, RecordSearcher, Rungs, StopRules, Watch


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"acc": 1, "epoch": 1}, "reported: acc, epoch; expected: loss"),
        ({}, "reported: nothing; expected: loss"),
        ({"loss ": 1.0}, "reported: 'loss '; expected: loss"),
        ({"loss": math.nan}, "expected: a finite number"),
        ({"loss": math.inf}, "expected: a finite number"),
        ({"loss": "0.3"}, "expected: a finite number"),
        ({"loss": True}, "expected: a finite number"),
        ({"loss": None}, "expected: a finite number"),
        ({"loss": 1.0}, "expected: epoch"),
        ({"loss": 1.0, "epoch": 1.5}, "expected: epoch"),
        ({"loss": 1.0, "epoch": "1"}, "expected: epoch"),
        ({"loss": 1.0, "epoch": -1}, "expected: epoch"),
    ],
)
def test_a_report_that_cannot_be_used_is_named(metrics, message):
    with pytest.raises(ReportError) as error:
        check_report(metrics, "loss", True, 1)
    assert message in str(error.value)


def test_where_nothing_hangs_on_epochs_reports_are_counted():
    assert check_report({"loss": 1}, "loss", False, 3) == {"loss": 1, "epoch": 3}
    assert check_report({"loss": 1, "epoch": 7.0}, "loss", False, 3) == {"loss": 1, "epoch": 7}


def test_c8_any_metric_name_works():
    name = "metrics/mAP50-95(B)"
    assert check_report({name: 0.5, "epoch": 1}, name, True, 1)[name] == 0.5


def tune_trial(index):
    return SimpleNamespace(trial_id=f"id{index}", config={KEY: {"index": index, "trial": f"t{index:04d}"}})


def asha(tmp_path, **changes):
    early = {"asha": {"maxEpochs": 9, "graceEpochs": 1, "reductionFactor": 3, **changes}}
    place = Place(tmp_path, trials={"count": 4, "earlyStopping": early})
    for index in range(4):
        place.records.propose(index, {"x": index / 10})
    return place, Rungs(place.sweep, place.records)


def feed(rungs, index, epoch, value):
    return rungs.on_trial_result(None, tune_trial(index), {"epoch": epoch, "loss": value})


def test_asha_stops_the_worse_and_remembers_whom(tmp_path):
    place, rungs = asha(tmp_path)
    for index in range(4):
        rungs.on_trial_add(None, tune_trial(index))
    assert feed(rungs, 0, 1, 0.1) == "CONTINUE"
    assert feed(rungs, 1, 1, 0.9) == "STOP"
    assert feed(rungs, 2, 1, 0.05) == "CONTINUE"
    assert rungs.stopped == {1}
    assert feed(rungs, 0, 2, 5.0) == "CONTINUE"  # between two rungs nothing is decided
    assert feed(rungs, 0, 9, 0.1) == "STOP"
    assert rungs.stopped == {1}, "a trial that reached maxEpochs is complete, not stopped early"
    assert place.records.get(1).rungs == {"1": 0.9}


def test_a_later_attempt_decides_with_the_rungs_of_the_earlier(tmp_path):
    place, rungs = asha(tmp_path)
    rungs.on_trial_add(None, tune_trial(0))
    feed(rungs, 0, 1, 0.1)
    place.records.flush()
    records = Records(place.store, place.sweep)
    records.load()
    later = Rungs(place.sweep, records)
    for index in (0, 1):
        later.on_trial_add(None, tune_trial(index))
    assert feed(later, 1, 1, 0.9) == "STOP"
    # The resumed trial reports above a rung that it has passed before: that rung is not decided again.
    assert feed(later, 0, 2, 50.0) == "CONTINUE"


def rules(tmp_path, targets=None, **changes):
    place = Place(tmp_path, **changes)
    watch = Watch()
    return StopRules(place.sweep, watch, targets or {}, {"id0": 0, "id1": 1}), watch


def test_stop_rules_of_a_trial(tmp_path):
    stop, watch = rules(tmp_path, trials={"count": 4, "stop": {"maxEpochs": 3, "metricThreshold": 0.1}})
    assert not stop("id0", {"epoch": 2, "loss": 0.2})
    assert stop("id0", {"epoch": 3, "loss": 0.2})
    assert stop("id1", {"epoch": 1, "loss": 0.1})
    assert watch.completed == {0, 1}
    assert not stop.stop_all()


def test_the_goal_ends_the_sweep(tmp_path):
    stop, watch = rules(tmp_path, objective={"metric": "loss", "mode": "Minimize", "goal": 0.1})
    assert not stop("id0", {"epoch": 1, "loss": 0.11})
    assert stop("id0", {"epoch": 2, "loss": 0.1})
    assert (watch.goal, stop.stop_all(), watch.completed) == (True, True, {0})


def test_a_mended_trial_knows_its_target_only(tmp_path):
    stop, watch = rules(
        tmp_path, targets={0: 4}, objective={"metric": "loss", "mode": "Minimize", "goal": 0.1}, trials={"count": 4}
    )
    assert not stop("id0", {"epoch": 3, "loss": 0.01})
    assert stop("id0", {"epoch": 4, "loss": 0.01})
    assert not watch.goal


def test_the_searcher_replays_what_is_recorded_and_begins_nothing_after_a_stop(tmp_path):
    place, watch = Place(tmp_path), Watch()
    place.records.propose(1, {"x": 0.125})
    searcher = RecordSearcher(place.sweep, place.records, watch, [1, 2, 3])
    assert searcher.suggest("a")["parameters"] == {"x": 0.125}
    new = searcher.suggest("b")
    assert new[KEY] == {"index": 2, "trial": "t0002", "configHash": place.records.get(2).config_hash}
    assert new["parameters"] == place.records.get(2).parameters == place.sweep.space.propose(2)
    watch.stopping.set()
    assert searcher.suggest("c") == "FINISHED"


class Answer:
    """As the board's actor, without Ray."""

    def __init__(self, notes):
        self.notes = SimpleNamespace(remote=lambda index, clear: notes.get(index, {}))


def recorder(place, watch, monkeypatch, notes=None, scheduler=None):
    import ray

    monkeypatch.setattr(ray, "get", lambda value: value)
    made = Recorder(
        place.sweep, place.records, watch, scheduler, {}, Answer(notes or {}), "bucket/run", lambda index: index == 3
    )
    for index in range(4):
        place.records.propose(index, {"x": index / 10})
        made.on_trial_start(0, [], tune_trial(index))
    return made


def test_how_trials_end(tmp_path, monkeypatch):
    place, watch = Place(tmp_path, trials={"count": 4, "maxFailed": 0}), Watch()
    made = recorder(
        place,
        watch,
        monkeypatch,
        notes={0: {"failed": "reported: a; expected: loss"}, 1: {"stopped": "flag"}},
        scheduler=SimpleNamespace(stopped={2}),
    )
    result = {"loss": 0.5, "epoch": 2, "checkpoint_path": "bucket/run/train/t0002-0123456789/c"}
    made.on_trial_result(0, [], tune_trial(2), result)
    for index in range(4):
        made.on_trial_complete(0, [], tune_trial(index))
    states = [r.state for r in place.records]
    assert states == ["Failed", "Running", "EarlyStopped", "Succeeded"]
    assert place.records.get(0).error == "reported: a; expected: loss"
    assert watch.checkpoints == {2: "train/t0002-0123456789/c"}
    assert watch.too_many_failed
    assert watch.stop.is_set()
    assert not watch.active - {1}


def test_tune_may_pickle_what_lives_in_the_driver(tmp_path):
    stop, _ = rules(tmp_path)
    assert pickle.loads(pickle.dumps(stop)) == "StopRules"  # noqa: S301 - our own bytes
