"""Heartbeat, stop and deadline, without Ray: what is written and what is asked of Tune."""

import time

import pytest

from tests.unit.trainjobs.builders import Place
from trainjobs import fence, pulse
from trainjobs.control import ControlFile
from trainjobs.flags import Flags
from trainjobs.limits import Meter, limits_of
from trainjobs.logs import Tail
from trainsweep.contract.documents import (
    Best,
    Control,
    Limits,
    Outcome,
    Phase,
    Progress,
    RunningTrial,
    StopRequest,
    TrialCounts,
    Verdict,
)


class Watch:
    """As tunerun.Watch, which needs Ray."""

    def __init__(self):
        import threading

        self.stop, self.stopping = threading.Event(), threading.Event()
        self.active, self.reported, self.checkpoints, self.durations = set(), {}, {}, []
        self.first_report_at = self.last_step_at = self.trial_seconds = None


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINSWEEP_STATE_DIR", str(tmp_path / "state"))
    return Place(tmp_path / "run")


@pytest.fixture
def beat(place, tmp_path):
    flags = Flags(place.sweep.file.attempt_id)
    flags.begin()
    control = ControlFile(tmp_path / "control.json", place.sweep.file.attempt_id)
    made = pulse.Pulse(place.sweep, place.store, place.records, control, flags, Tail())
    made.watch = Watch()
    return made


def say(tmp_path, **changes):
    (tmp_path / "control.json").write_bytes(Control(attempt_id="1-0a1b2c3d", **changes).to_json())


def test_a_stop_raises_the_flag_first_and_ends_tune_after_the_next_report(place, beat, tmp_path):
    raised = []
    beat.raise_flag = lambda: raised.append(1)
    place.records.propose(0, {"x": 0.1})
    place.records.update(0, state="Running")
    beat.watch.active.add(0)
    beat.phase = Phase.RUNNING
    say(tmp_path, stop=StopRequest(reason="Deleted", grace_seconds=60))
    beat._listen()
    beat._listen()
    assert raised == [1]
    assert beat.watch.stopping.is_set()
    assert not beat.watch.stop.is_set()
    assert (beat.stop.outcome, beat.stop.reason, beat.phase) == (Outcome.STOPPED, "Deleted", Phase.STOPPING)
    beat.watch.reported[0] = time.monotonic()
    beat._listen()
    assert beat.watch.stop.is_set()


def test_a_loop_that_does_not_report_ends_with_the_grace(place, beat, tmp_path):
    place.records.propose(0, {"x": 0.1})
    place.records.update(0, state="Running")
    beat.watch.active.add(0)
    say(tmp_path, stop=StopRequest(reason="Deleted", grace_seconds=0))
    beat._listen()
    assert beat.watch.stop.is_set()


def test_a_stop_for_another_attempt_is_ignored(beat, tmp_path):
    text = Control(attempt_id="2-0a1b2c3d", stop=StopRequest(reason="Deleted")).to_json()
    (tmp_path / "control.json").write_bytes(text)
    beat._listen()
    assert beat.stop is None


@pytest.mark.parametrize("text", [b"", b"  \n", b"{", b"[]", b'{"attemptId": 5}'])
def test_an_unreadable_control_document_changes_nothing(beat, tmp_path, text):
    (tmp_path / "control.json").write_bytes(text)
    beat._listen()
    assert (beat.stop, beat.verdict) == (None, None)


def test_a_projected_file_that_is_swapped_is_read_anew(beat, tmp_path):
    """As the kubelet does: the path is a symlink into a directory that is replaced."""
    for number, digest in enumerate(["a" * 64, "b" * 64]):
        folder = tmp_path / f"..{number}"
        folder.mkdir()
        verdict = Verdict(receipt_digest=digest, result="Persisted")
        (folder / "control").write_bytes(Control(attempt_id="1-0a1b2c3d", verdict=verdict).to_json())
        link = tmp_path / "swap"
        link.symlink_to(folder / "control")
        link.replace(tmp_path / "control.json")
        beat._listen()
        assert beat.verdict.receipt_digest == digest


def test_the_prestop_flag_and_the_signal_stop_too(place, beat):
    (Flags(place.sweep.file.attempt_id)._folder / "stop").touch()
    beat._listen()
    assert beat.stop.reason == "PreStop"


def test_a_signal_leaves_most_of_rays_wait_to_the_settlement(beat, monkeypatch):
    monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", "30")
    beat.signal.set()
    beat._listen()
    assert (beat.stop.reason, beat.stop.grace) == ("Signal", 10)


def test_a_deadline_begins_its_stop_early_enough_but_not_before_half_time():
    assert pulse.stop_before(deadline=1000, started=0, grace=30) == 940
    assert pulse.stop_before(deadline=60, started=0, grace=30) == 30


def test_progress_says_phase_counts_and_best(place, beat):
    place.records.propose(0, {"x": 0.1})
    place.records.report(0, 2, 0.5)
    beat.phase = Phase.RUNNING
    beat.watch.checkpoints[0] = "train/t0000-0123456789/c"
    beat._beat()
    progress = Progress.model_validate_json((place.root / "progress.json").read_bytes())
    assert progress.phase is Phase.RUNNING
    assert (progress.trials.running, progress.trials.pending) == (1, 3)
    assert (progress.best.trial, progress.best.value, progress.best.step) == ("t0000", 0.5, 2)
    assert progress.best.checkpoint == "train/t0000-0123456789/c"


def test_progress_names_the_trials_that_run(place, beat):
    for index, state in enumerate(["Running", "Succeeded", "Running"]):
        place.records.propose(index, {"x": 0.1 * index})
        place.records.report(index, index + 1, 0.5)
        place.records.update(index, state=state)
    beat._beat()
    progress = Progress.model_validate_json((place.root / "progress.json").read_bytes())
    assert [(r.trial, r.step, r.value) for r in progress.running] == [("t0000", 1, 0.5), ("t0002", 3, 0.5)]


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", "\x00", '"', "\\", "\u2028"])
@pytest.mark.parametrize("parameters", [0, 64])
@pytest.mark.parametrize("running", [0, 16])
def test_progress_never_passes_its_limit(character, parameters, running):
    """The worst of every field, in characters that JSON writes long: the value of the best is the last that goes."""
    best = Best(
        trial="t" * 63,
        value=-1.7976931348623157e308,
        step=10**18,
        parameters={f"p{i}": character * 1000 for i in range(parameters)},
        checkpoint="train/" + "c" * 200,
    )
    progress = Progress(
        attempt_id="999-0a1b2c3d",
        phase=Phase.WAITING_FOR_VERDICT,
        heartbeat_at=1.0000000000000002e300,
        trials=TrialCounts(expected=100_000, succeeded=10**12),
        best=best,
        running=[RunningTrial(trial="r" * 63, step=10**18, value=-1.7976931348623157e308)] * running,
        message=character * 1024,
        receipt_digest="a" * 64,
        eta_seconds=1.0000000000000002e300,
    )
    data = pulse.progress_bytes(progress)
    assert len(data) <= 4096
    found = Progress.model_validate_json(data)
    assert found.best.value == best.value
    assert found.receipt_digest == "a" * 64


def test_progress_of_an_ordinary_sweep_is_whole(place):
    best = Best(
        trial="t0000", value=1, step=1, parameters={f"p{i}": 0.123456789 for i in range(12)}, checkpoint="train/x"
    )
    running = [RunningTrial(trial=f"t{i:04d}", step=12, value=0.123456789) for i in range(16)]
    progress = Progress(
        attempt_id="1-0a1b2c3d", phase=Phase.RUNNING, heartbeat_at=1.0, trials=TrialCounts(), best=best, running=running
    )
    assert Progress.model_validate_json(pulse.progress_bytes(progress)) == progress


def test_a_newer_attempt_ends_tune_and_silences_this_one(place, beat, monkeypatch):
    from tests.unit.trainjobs.builders import sweep

    monkeypatch.setattr(pulse.threading, "Timer", lambda *a, **k: type("T", (), {"daemon": 0, "start": lambda s: 0})())
    fence.enter(place.store, place.sweep)
    beat._fence()
    assert beat.fenced is None
    fence.enter(place.store, sweep(attempt=2))
    beat._fence()
    assert beat.fenced is not None
    assert beat.watch.stop.is_set()


def test_stop_from_another_process_waits_for_the_end(place, beat):
    flags = Flags(place.sweep.file.attempt_id)
    assert flags.stop_and_wait(0.1) is False  # this very process is the driver, and lives
    flags.end()
    assert flags.stop_and_wait(0.1) is True


def test_the_log_keeps_its_end():
    tail = Tail(limit=100)
    for number in range(100):
        tail.add(f"line {number}\n")
    text = tail.take().decode()
    assert text.startswith("[the beginning was cut]\n")
    assert text.endswith("line 99\n")
    assert len(text) < 200
    assert tail.take() is None


# ------------------------------------------------------------------------------------------------ limits


def running(beat, **watch):
    beat.phase = Phase.RUNNING
    for name, value in watch.items():
        setattr(beat.watch, name, value)
    return beat


def test_a_raised_deadline_reaches_the_running_driver(place, beat, tmp_path):
    running(beat).limits = Limits(deadline_at=time.time() + 20)
    say(tmp_path, limits=Limits(deadline_at=time.time() + 9000))
    beat._started = time.time() - 1000
    beat._listen()
    assert beat.stop is None
    say(tmp_path, limits=Limits(deadline_at=time.time() + 5))
    beat._listen()
    assert (beat.stop.outcome, beat.stop.reason) == (Outcome.DEADLINE_EXCEEDED, "DeadlineExceeded")


def test_a_removed_deadline_is_gone_and_an_older_operator_removes_none(place, beat, tmp_path):
    running(beat).limits = Limits(deadline_at=time.time() - 5)
    say(tmp_path, limits=Limits())
    beat._listen()
    assert beat.stop is None
    beat.limits = Limits(deadline_at=time.time() - 5)
    say(tmp_path)
    beat._listen()
    assert beat.stop is not None


def test_a_stall_is_no_report_for_too_long_after_the_first(beat):
    beat.limits = Limits(stall_seconds=60)
    running(beat, first_report_at=None, last_step_at=time.time() - 100)._listen()
    assert beat.stop is None
    running(beat, first_report_at=1.0, last_step_at=time.time() - 50)._listen()
    assert beat.stop is None
    running(beat, last_step_at=time.time() - 61)._listen()
    assert (beat.stop.outcome, beat.stop.reason) == (Outcome.STOPPED, "StallDeadlineExceeded")


@pytest.mark.parametrize("limits", [Limits(gpu_seconds=100), Limits(cpu_seconds=200)])
def test_the_driver_ends_by_the_budget_that_was_left(beat, limits):
    now = [0.0]
    beat.meter = Meter(clock=lambda: now[0])
    beat.meter.size = lambda: (1.0, 2.0)
    running(beat).limits = limits
    now[0] = 99
    beat.meter.count()
    beat._listen()
    assert beat.stop is None
    now[0] = 101
    beat.meter.count()
    beat._listen()
    assert (beat.stop.outcome, beat.stop.reason) == (Outcome.BUDGET_EXCEEDED, "BudgetExceeded")


def test_a_cluster_that_cannot_be_asked_is_counted_later():
    now = [0.0]
    meter = Meter(clock=lambda: now[0])
    answers = [RuntimeError("gone"), (2.0, 4.0)]

    def size():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    meter.size = size
    now[0] = 10
    meter.count()
    assert meter.gpu_seconds == 0
    now[0] = 20
    meter.count()
    assert (meter.gpu_seconds, meter.cpu_seconds) == (40, 80)


def test_no_limit_ends_a_settlement(beat):
    beat.limits = Limits(deadline_at=time.time() - 5, stall_seconds=1)
    beat.phase = Phase.SETTLING
    beat._listen()
    assert beat.stop is None


def test_limits_of_a_laptops_sweep_file_come_from_the_spec():
    from tests.unit.trainjobs.builders import sweep

    found = limits_of(sweep(deadlines={"stallSeconds": 70, "trialSeconds": 80}, budget={"cpuHours": 0.5}))
    assert found == Limits(stall_seconds=70, trial_seconds=80, cpu_seconds=1800)
