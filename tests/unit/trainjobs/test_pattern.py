"""The documented pattern of Tune over Train, looked at where it is built: no cluster, the trainer's arguments."""

import inspect
import os

import pytest

pytest.importorskip("ray.tune")  # an extra; CI has it and fails on a skip

import ray.tune

from tests.unit.trainjobs.builders import Place
from trainjobs import trial, tunerun
from trainjobs.rooms import Rooms
from trainjobs.stopping import Watch
from trainjobs.trial import KEY, TrialSetup

LOOP = "tests.unit.trainjobs.test_pattern:loop"
TRAINSWEEP_BACKEND = "none"
IDENTITY = {"index": 3, "trial": "t0003", "configHash": "0123456789"}


def loop(config):
    """Never run here."""


def setup(**changes):
    values = {
        "entrypoint": LOOP,
        "archive": None,
        "backend": "none",
        "constants": {"epochs": 5, "x": 0},
        "metric": "loss",
        "mode": "Minimize",
        "workers": 4,
        "fewest": 4,
        "cpus": 2,
        "gpus": 1,
        "worker_restarts": 0,
        "keep": 2,
        "root": "bucket/p/ns/name/v1-0",
        "filesystem": None,
        "attempt_id": "1-0a1b2c3d",
        "needs_epoch": False,
    }
    return TrialSetup(**{**values, **changes})


@pytest.fixture
def built(monkeypatch):
    """What a trial hands to its trainer."""
    from ray.train.v2.api import data_parallel_trainer

    seen = {}

    class Recorder:
        def __init__(self, function, **arguments):
            seen.update(arguments, function=function)

    monkeypatch.setattr(data_parallel_trainer, "DataParallelTrainer", Recorder)
    # Outside of a Tune session Ray refuses its callback, which is the point of building it inside of the trial.
    monkeypatch.setattr(trial.TuneReportCallback, "__init__", lambda self: None)

    def build(parameters=None, **changes):
        trial._trainer(setup(**changes), IDENTITY, parameters or {"x": 1})
        return seen

    return build


def test_the_report_callback_belongs_into_a_tune_session():
    with pytest.raises(RuntimeError, match="Tune session"):
        trial.ReportCallback(setup(), 3)


@pytest.mark.parametrize("restarts", [0, 3])
def test_all_three_budgets_of_train_are_set_and_finite_and_0_is_0(built, restarts):
    failure = built(worker_restarts=restarts)["run_config"].failure_config
    assert (failure.max_failures, failure.controller_failure_limit, failure.max_preemption_failures) == (restarts,) * 3


def test_the_trial_s_parameters_go_through_the_loop_s_config_and_win_over_constants(built):
    assert built({"x": 1})["train_loop_config"]["loop"] == {"epochs": 5, "x": 1}


def test_workers_and_their_resources_are_one_scaling_config(built):
    scaling = built()["scaling_config"]
    assert (scaling.num_workers, scaling.use_gpu, scaling.resources_per_worker) == (4, True, {"CPU": 2, "GPU": 1})
    assert built(gpus=0)["scaling_config"].resources_per_worker == {"CPU": 2}


def test_each_trial_has_a_train_run_of_its_own_name_the_same_in_every_attempt(built):
    first, second = (built(attempt_id=a)["run_config"] for a in ("1-0a1b2c3d", "2-0a1b2c3d"))
    assert first.name == second.name == "t0003-0123456789"
    assert first.storage_path == second.storage_path == "bucket/p/ns/name/v1-0/train"


def test_the_settings_of_train_and_of_tune_are_two_and_in_two_trees(built, monkeypatch, tmp_path):
    of_train, of_tune = built()["run_config"], {}
    monkeypatch.setattr(ray.tune.Tuner, "__init__", lambda self, trainable, **arguments: of_tune.update(arguments))
    monkeypatch.setattr(ray.tune.Tuner, "fit", lambda self: None)
    monkeypatch.setattr(ray.tune, "with_parameters", lambda function, **parameters: function)
    place = Place(tmp_path)
    tunerun.run_tune(
        place.sweep,
        place.records,
        Watch(),
        setup(),
        None,
        name="1-0a1b2c3d",
        indices=[0, 1, 2, 3],
        concurrent=2,
        resource="trial_slot",
        committed=lambda index: False,
        rooms=Rooms(),
    )
    run, tune = of_tune["run_config"], of_tune["tune_config"]
    assert (type(of_train).__module__.split(".")[1], type(run).__module__.split(".")[1]) == ("train", "tune")
    assert type(run.failure_config) is not type(of_train.failure_config)
    assert (run.storage_path, run.name) == ("bucket/p/ns/name/v1-0/tune", "1-0a1b2c3d")
    assert tune.max_concurrent_trials == 2, "without it Tune admits every driver that fits"
    assert tune.num_samples == 4
    assert run.failure_config.max_failures == place.sweep.spec.failure_policy.trial_retries
    assert not run.failure_config.fail_fast or run.failure_config.fail_fast == "DEPRECATED"


def test_old_options_that_ray_refuses_are_not_used():
    """`trainer_resources`, `resume_from_checkpoint` and the like raise in Train V2."""
    text = inspect.getsource(trial) + inspect.getsource(tunerun)
    for word in ("trainer_resources", "resume_from_checkpoint", "checkpoint_at_end", "fail_fast", "sync_config"):
        assert word not in text


def test_a_rank_that_does_not_report_keeps_the_others_for_minutes_not_for_ever(monkeypatch):
    """The trial sets Train's time-out before it builds the trainer; a value that is set already stands."""
    for given, wanted in ((None, "600"), ("30", "30")):
        monkeypatch.delenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", raising=False)
        if given:
            monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", given)
        monkeypatch.setattr(trial.board, "find", lambda: None)

        def stop(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(trial, "_trainer", stop)
        with pytest.raises(KeyboardInterrupt):
            trial.run_trial({KEY: IDENTITY, "parameters": {}}, setup())
        assert os.environ["RAY_TRAIN_COLLECTIVE_TIMEOUT_S"] == wanted


def test_C11_names_stay_short_and_the_record_holds_all_of_a_large_trial(tmp_path):
    """32 parameters with the longest names, values with everything that a path does not take."""
    names = [f"p{i:02d}" + "n" * 60 for i in range(32)]
    odd = ["a/b=c,d\n\U0001f600" + "v" * 190, "." * 200]
    parameters = [{"name": name, "categorical": {"values": odd}} for name in names]
    search = {"algorithm": {"random": {}}, "parameters": parameters}
    place = Place(tmp_path, search=search, trials={"count": 10_000})
    record = place.records.propose(9_999, place.sweep.proposals.propose(9_999))
    assert (record.trial, len(f"{record.trial}-{record.config_hash}")) == ("t9999", 16)
    place.records.load()
    assert place.records.get(9_999).parameters == record.parameters
    assert set(record.parameters) == set(names)
