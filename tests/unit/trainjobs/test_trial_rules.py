"""Rules over reports, without a cluster: what is accepted, who is stopped early, when trial and sweep are complete."""

import math
import pickle
from types import SimpleNamespace

import pytest

from tests.unit.trainjobs import builders
from tests.unit.trainjobs.builders import Place

pytest.importorskip("ray.tune")  # an extra; CI has it and fails on a skip

from trainjobs.rooms import Rooms
from trainjobs.stopping import StopRules, Watch
from trainjobs.trial import KEY, ReportError, TrialSetup, check_report
from trainjobs.tunerun import Recorder, RecordSearcher


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({"acc": 1, "epoch": 1}, "reported: acc, epoch; expected: loss"),
        ({"acc": 1, "los": 1.0}, "reported: acc, los; expected: loss (is los meant?)"),
        ({"Loss": 1.0}, "expected: loss (is Loss meant?)"),
        ({"acc": 1}, "Ray's asynchronous validation never reach the search"),
        ({}, "reported: nothing; expected: loss"),
        ({"loss ": 1.0}, "reported: 'loss '; expected: loss (is 'loss ' meant?)"),
        ({"val_loss ": 1.0, "epoch": 1}, "reported: epoch, 'val_loss '; expected: loss"),
        ({"loss": math.nan}, "reported: loss = nan; expected: a finite number"),
        ({"loss": math.inf}, "reported: loss = inf; expected: a finite number"),
        ({"loss": "0.3"}, "reported: loss = '0.3'; expected: a finite number"),
        ({"loss": True}, "expected: a finite number"),
        ({"loss": None}, "expected: a finite number"),
        ({"loss": -math.inf}, "reported: loss = -inf; expected: a finite number"),
        ({"loss": [0.3]}, "reported: loss = [0.3]; expected: a finite number"),
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


def test_C8_any_metric_name_works():
    name = "metrics/mAP50-95(B)"
    assert check_report({name: 0.5, "epoch": 1}, name, True, 1)[name] == 0.5


def tune_trial(index):
    return SimpleNamespace(trial_id=f"id{index}", config={KEY: {"index": index, "trial": f"t{index:04d}"}})


def test_the_searcher_replays_what_is_recorded_and_begins_nothing_after_a_stop(tmp_path):
    place, watch = Place(tmp_path), Watch()
    place.records.propose(1, {"x": 0.125})
    searcher = RecordSearcher(place.sweep, place.records, watch, [1, 2, 3])
    assert searcher.suggest("a")["parameters"] == {"x": 0.125}
    new = searcher.suggest("b")
    assert new[KEY] == {"index": 2, "trial": "t0002", "configHash": place.records.get(2).config_hash}
    assert new["parameters"] == place.records.get(2).parameters == place.sweep.proposals.propose(2)
    watch.stopping.set()
    assert searcher.suggest("c") == "FINISHED"


class Answer:
    """As the board's actor, without Ray."""

    def __init__(self, notes):
        self.notes = SimpleNamespace(remote=lambda index, clear: notes.get(index, {}))


def recorder(place, watch, monkeypatch, notes=None, scheduler=None, rooms=None):
    import ray

    monkeypatch.setattr(ray, "get", lambda value: value)
    made = Recorder(
        place.sweep,
        place.records,
        watch,
        scheduler,
        {},
        Answer(notes or {}),
        "bucket/run",
        lambda index: index == 3,
        rooms or Rooms(),
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
    assert [r.order for r in place.records] == [1, None, 2, 3], "results are numbered as the search is told them"
    assert watch.checkpoints == {2: "train/t0002-0123456789/c"}
    assert watch.too_many_failed
    assert watch.stop.is_set()
    assert not watch.active - {1}


def test_every_end_of_a_try_tells_which_train_run_is_over(tmp_path, monkeypatch):
    told, clears = [], []
    notes = {index: {"run": f"run-{index}"} for index in range(4)}
    place, watch = Place(tmp_path, trials={"count": 4}), Watch()
    made = recorder(place, watch, monkeypatch, notes, rooms=SimpleNamespace(ended=told.append))
    real = made._board.notes.remote
    made._board.notes.remote = lambda index, clear: clears.append(clear) or real(index, clear)
    trial = tune_trial(0)
    trial.error_file = None
    made.on_trial_recover(0, [], trial)
    made.on_trial_complete(0, [], tune_trial(1))
    trial = tune_trial(2)
    trial.error_file = None
    made.on_trial_error(0, [], trial)
    assert (told, clears) == (["run-0", "run-1", "run-2"], [False, True, True])
    made.on_experiment_end([])
    assert told[3:] == ["run-0", "run-3"], "those that a stop ends in the midst"


def test_b8_a_loop_that_leaves_on_the_notice_is_no_completed_trial(tmp_path, monkeypatch):
    """Neither one that left at once nor one that had just reported its last epoch: the next attempt looks."""
    place, watch = Place(tmp_path, trials={"count": 4, "maxFailed": 0}), Watch()
    made = recorder(place, watch, monkeypatch, notes={0: {"stopped": "flag"}, 1: {"stopped": "flag"}})
    made.on_trial_result(0, [], tune_trial(1), {"loss": 0.5, "epoch": 2})
    for index in (0, 1):
        made.on_trial_complete(0, [], tune_trial(index))
    assert [r.state for r in place.records][:2] == ["Running", "Running"]
    assert {0, 1} <= set(place.records.unfinished())
    assert place.records.counts().failed == 0
    assert [r.retries for r in place.records][:2] == [0, 0], "the notice costs no retry"


def test_tune_may_pickle_what_lives_in_the_driver(tmp_path):
    place = Place(tmp_path)
    stop = StopRules(place.sweep, place.records, Watch(), {}, {})
    assert pickle.loads(pickle.dumps(stop)) == "StopRules"  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("workers", "expected"), [({"count": 3}, 3), ({"min": 1, "max": 4}, (1, 4)), ({"min": 2, "max": 2}, 2)]
)
def test_elastic_workers_become_a_pair_for_train(workers, expected):
    made = builders.sweep(training={"entrypoint": "train:train_loop", "workers": workers})
    setup = SimpleNamespace(workers=made.workers, fewest=made.fewest_workers)
    assert TrialSetup.num_workers.fget(setup) == expected
