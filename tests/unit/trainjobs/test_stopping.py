"""Who is stopped early, when trial and sweep are complete, and that a later attempt decides as the former would have."""

import random
from itertools import islice
from types import SimpleNamespace

import pytest

from tests.unit.trainjobs.builders import Place

pytest.importorskip("ray.tune")  # an extra; CI has it and fails on a skip

from trainjobs import stopping
from trainjobs.records import Records
from trainjobs.stopping import EarlyStopper, MedianRule, StopRules, Watch, shares, spread
from trainjobs.trial import KEY

ASHA = {"asha": {"maxEpochs": 9, "graceEpochs": 1, "reductionFactor": 3}}
HYPERBAND = {"hyperband": {"maxEpochs": 9, "graceEpochs": 1, "reductionFactor": 3}}
MEDIAN = {"median": {"graceEpochs": 2, "minTrials": 2}}


def tune_trial(index):
    return SimpleNamespace(trial_id=f"id{index}", config={KEY: {"index": index, "trial": f"t{index:04d}"}})


def stopper(tmp_path, early, count=4, **changes):
    place = Place(tmp_path, trials={"count": count, "earlyStopping": early}, **changes)
    for index in range(count):
        place.records.propose(index, {"x": index / 100})
    return place, EarlyStopper(place.sweep, place.records)


def feed(early, index, epoch, value):
    return early.on_trial_result(None, tune_trial(index), {"epoch": epoch, "loss": value})


def resumed(place):
    """The same sweep after a kill: only what was flushed is left."""
    place.records.flush()
    records = Records(place.store, place.sweep)
    records.load()
    return EarlyStopper(place.sweep, records)


def test_asha_stops_the_worse_and_remembers_whom(tmp_path):
    place, early = stopper(tmp_path, ASHA)
    assert feed(early, 0, 1, 0.1) == "CONTINUE"
    assert feed(early, 1, 1, 0.9) == "STOP"
    assert feed(early, 2, 1, 0.05) == "CONTINUE"
    assert early.stopped == {1}
    assert feed(early, 0, 2, 5.0) == "CONTINUE"  # between two rungs nothing is decided
    assert feed(early, 0, 9, 0.1) == "STOP"
    assert early.stopped == {1}, "a trial that reached maxEpochs is complete, not stopped early"
    assert place.records.get(1).rungs == {"1": 0.9}


def test_C10_the_order_of_trials_decides_whether_asha_stops_anything(tmp_path):
    """One at a time: best first stops all others, worst first none, as each is the best so far."""
    for name, values in (("best-first", range(8)), ("worst-first", reversed(range(8)))):
        _, early = stopper(tmp_path / name, ASHA, count=8)
        for index, value in enumerate(values):
            for epoch in (1, 3, 9):
                if feed(early, index, epoch, float(value)) == "STOP":
                    break
        assert early.stopped == (set(range(1, 8)) if name == "best-first" else set())


@pytest.mark.parametrize("early", [ASHA, HYPERBAND, MEDIAN], ids=["asha", "hyperband", "median"])
def test_a_later_attempt_decides_as_the_former_would_have(tmp_path, early):
    """The same reports, once in one attempt, once with a kill after each: the same trials are stopped."""
    draw = random.Random(5)  # noqa: S311  # no secret is drawn
    reports = [(i, e, draw.random()) for e in range(1, 9) for i in draw.sample(range(12), 12)]
    _, whole = stopper(tmp_path / "a", early, count=12)
    place, torn = stopper(tmp_path / "b", early, count=12)
    stopped = {"whole": set(), "torn": set()}
    for index, epoch, value in reports:
        if index not in stopped["whole"] and feed(whole, index, epoch, value) == "STOP":
            stopped["whole"].add(index)
        if index not in stopped["torn"] and feed(torn, index, epoch, value) == "STOP":
            stopped["torn"].add(index)
        torn = resumed(place)
        place.records = torn._records
    assert stopped["torn"] == stopped["whole"]
    assert 0 < len(stopped["whole"]) < 12


def test_a_loop_that_reports_every_fifth_epoch_passes_all_rungs_between(tmp_path):
    place, early = stopper(tmp_path, ASHA)
    assert feed(early, 0, 5, 0.1) == "CONTINUE"
    assert place.records.get(0).rungs == {"1": 0.1, "3": 0.1}


def test_hyperband_s_brackets_have_their_share_and_their_grace(tmp_path):
    assert [round(share, 3) for share in shares(2, 3)] == [0.6, 0.4]
    taken = list(islice(spread(shares(2, 3)), 50))
    assert taken.count(0) == 30
    assert abs(taken[:10].count(0) - 6) <= 1
    _, early = stopper(tmp_path, HYPERBAND, count=10)
    graces = [rule.looks[0] for rule in early._rule]
    assert set(graces) == {1, 3}
    second = [i for i, grace in enumerate(graces) if grace == 3]
    for value, index in enumerate(second):
        assert feed(early, index, 1, float(value)) == "CONTINUE", "the second bracket does not look at epoch 1"
    assert [feed(early, index, 3, float(value)) for value, index in enumerate(second)].count("STOP") > 0


def test_the_median_rule_is_tune_s():
    """Reports of ten trials, epoch by epoch: the verdict is Tune's MedianStoppingRule's at each of them."""
    from ray.tune.schedulers import MedianStoppingRule

    for mode, seed in (("Minimize", 1), ("Maximize", 2)):
        draw = random.Random(seed)  # noqa: S311  # no secret is drawn
        theirs = MedianStoppingRule(
            time_attr="epoch",
            metric="loss",
            mode="max" if mode == "Maximize" else "min",
            grace_period=2,
            min_samples_required=3,
            min_time_slice=float("inf"),
        )
        ours, running = MedianRule(mode, grace=2, minimum=3, interval=1), set(range(10))
        trials = [type("Trial", (), {"trial_id": str(i)}) for i in range(10)]
        for epoch in range(2, 12):
            for trial in sorted(running):
                value = draw.random()
                verdict = theirs.on_trial_result(None, trials[trial], {"epoch": epoch, "loss": value})
                assert ours.see(str(trial), epoch, value) == (verdict == "STOP")
                if verdict == "STOP":
                    running.discard(trial)
        assert len(running) < 10


def test_the_median_rule_needs_trials_that_came_as_far(tmp_path):
    _, early = stopper(tmp_path, MEDIAN)
    assert feed(early, 0, 2, 9.0) == "CONTINUE"
    assert feed(early, 1, 2, 0.1) == "CONTINUE"
    assert feed(early, 2, 2, 5.0) == "STOP"
    assert feed(early, 3, 2, 0.2) == "CONTINUE"
    assert early.stopped == {2}


def rules(tmp_path, targets=None, **changes):
    place = Place(tmp_path, **changes)
    for index in range(2):
        place.records.propose(index, {"x": index / 10})
    watch = Watch()
    return StopRules(place.sweep, place.records, watch, targets or {}, {"id0": 0, "id1": 1}), watch


def test_stop_rules_of_a_trial(tmp_path):
    stop, watch = rules(tmp_path, trials={"count": 4, "stop": {"maxEpochs": 3, "metricThreshold": 0.1}})
    assert not stop("id0", {"epoch": 2, "loss": 0.2})
    assert stop("id0", {"epoch": 3, "loss": 0.2})
    assert stop("id1", {"epoch": 1, "loss": 0.1})
    assert watch.completed == {0, 1}
    assert not stop.stop_all()


@pytest.mark.parametrize(
    ("mode", "delta", "values", "ends"),
    [
        ("Minimize", 0.0, [5, 4, 4, 4], 4),
        ("Minimize", 0.0, [5, 4, 4, 3, 3, 3], 6),
        ("Minimize", 0.5, [5, 4.6, 4.4, 4.2, 4.1], 5),  # 4.4 is better than 5 by more than 0.5, the others are not
        ("Maximize", 0.0, [1, 2, 1, 1], 4),
        ("Maximize", 0.0, [1, 2, 3, 4], None),
    ],
)
def test_a_plateau_ends_a_trial_also_over_a_kill(tmp_path, mode, delta, values, ends):
    changes = {
        "objective": {"metric": "loss", "mode": mode},
        "trials": {"count": 4, "stop": {"plateau": {"epochs": 2, "minDelta": delta}}},
    }
    for killed in (False, True):
        stop, _ = rules(tmp_path / str(killed), **changes)
        found = None
        for epoch, value in enumerate(values, 1):
            if stop("id0", {"epoch": epoch, "loss": value}):
                found = epoch
                break
            if killed:
                stop._records.flush()
                records = Records(stop._records._store, stop._sweep)
                records.load()
                stop = StopRules(stop._sweep, records, Watch(), {}, {"id0": 0})
        assert found == ends


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


@pytest.mark.parametrize(("limit", "number"), [(None, None), (3, 3), ("20%", 2), ("100%", 12), ("0%", 0), ("9%", 1)])
def test_max_failed_is_a_number_or_a_share_rounded_down(tmp_path, limit, number):
    trials = {"count": 12} if limit is None else {"count": 12, "maxFailed": limit}
    assert Place(tmp_path, trials=trials).sweep.max_failed == number


@pytest.mark.parametrize(
    ("trials", "needed"),
    [
        ({}, False),
        ({"stop": {"metricThreshold": 1}}, False),
        ({"stop": {"maxEpochs": 1}}, True),
        ({"stop": {"plateau": {"epochs": 1}}}, True),
        *(({"earlyStopping": early}, True) for early in (ASHA, HYPERBAND, MEDIAN)),
    ],
)
def test_what_counts_epochs_needs_them_reported(tmp_path, trials, needed):
    assert Place(tmp_path, trials={"count": 4, **trials}).sweep.needs_epoch is needed


class Tune:
    """Tune's controller as a scheduler sees it."""

    def __init__(self, *trials):
        self.trials, self.stopped = trials, []

    def get_trials(self):
        return self.trials

    def stop_trial(self, trial):
        self.stopped.append(trial)


def running(index, status="RUNNING"):
    trial = tune_trial(index)
    trial.status, trial.placement_group_factory = status, None
    return trial


def test_a_trial_that_reports_nothing_is_ended_after_its_time_and_the_grace(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    monkeypatch.setattr(stopping.FIFOScheduler, "choose_trial_to_run", lambda self, controller: None)
    watch, queue = Watch(), stopping.Queue()
    queue.watch, queue.grace = watch, 30.0
    watch.begin(0, 0.0)
    watch.begin(1, 50.0)  # an earlier try took as long
    tune = Tune(running(0), running(1), running(2), running(1, "TERMINATED"))
    now[0] += 90
    queue.choose_trial_to_run(tune)
    assert tune.stopped == []  # there is no limit
    watch.trial_seconds = 100
    queue.choose_trial_to_run(tune)
    assert (tune.stopped, watch.timed_out) == ([tune.trials[1]], {1})


def test_a_trial_ends_with_its_next_report_once_its_time_is_over(tmp_path):
    place = Place(tmp_path)
    place.records.propose(0, {"x": 0.1})
    watch = Watch()
    watch.begin(0, 0.0)
    rules = StopRules(place.sweep, place.records, watch, {}, {"a": 0})
    assert rules("a", {"loss": 0.5, "epoch": 1}) is False
    watch.trial_seconds = 0
    assert rules("a", {"loss": 0.5, "epoch": 2}) is True
    assert (watch.timed_out, watch.completed) == ({0}, set())
    mending = StopRules(place.sweep, place.records, Watch(trial_seconds=0, begun={0: (0.0, 0.0)}), {0: 5}, {"a": 0})
    assert mending("a", {"loss": 0.5, "epoch": 2}) is False
