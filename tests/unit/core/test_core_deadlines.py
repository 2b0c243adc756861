"""Deadlines: the driver first, then we, KubeRay last; absolute, from stamps; and what a stop says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import NOW, Stage, control_of, events, head, kinds, klass, only, pod_body, spec
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Control, Limits, Outcome, Phase
from trainsweep.core import model
from trainsweep.core.model import RayJobView, Unreadable
from trainsweep.core.pending.situation import Situation
from trainsweep.core.times import to_text


def with_deadlines(**deadlines: Any) -> Stage:
    """A stage with these deadlines."""
    return Stage(spec=spec(deadlines=deadlines))


def body_of(stage: Stage) -> dict[str, Any]:
    """Spec of the RayJob that the first pass posts."""
    return dict(only(stage.decide(), model.CreateRayJob)[0].body["spec"])


def obeyed(stage: Stage) -> Stage:
    """The head pod carries the stop."""
    plan = stage.decide(0)
    if only(plan, model.PatchControl):
        stage.pods = (head(control=control_of(plan)),)
    return stage


def test_deadlines_are_absolute_times_in_the_status() -> None:
    stage = with_deadlines(startupSeconds=100, runSeconds=1000, totalSeconds=2000)
    stage.decide()
    told = stage.status.deadlines
    assert (told.startup, told.run, told.total) == (to_text(NOW + 100), to_text(NOW + 1000), to_text(NOW + 2000))


def test_backstop_comes_after_driver_operator_grace_and_verdict() -> None:
    assert body_of(with_deadlines(runSeconds=1000))["activeDeadlineSeconds"] == 1000 + 10 + 100 + 300
    assert "activeDeadlineSeconds" not in body_of(with_deadlines(startupSeconds=100))


def test_driver_is_told_the_earlier_of_run_and_total() -> None:
    stage = with_deadlines(startupSeconds=100, runSeconds=1000, totalSeconds=1000)
    body = body_of(stage)
    text = body["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]["annotations"]["trainsweep.io/sweep-file"]
    assert f'"deadlineAt":{NOW + 1000}' in text


@pytest.mark.parametrize(
    ("deadlines", "reason"),
    [
        ({"runSeconds": 1000}, "RunDeadlineExceeded"),
        ({"totalSeconds": 1000}, "TotalDeadlineExceeded"),
    ],
)
def test_operator_asks_for_a_stop_after_the_driver_had_its_chance(deadlines: dict[str, Any], reason: str) -> None:
    stage = with_deadlines(**deadlines).running().reporting()
    stage.decide(985)
    assert stage.attempt.stop_reason == ""
    stage.reporting()
    stage.now = NOW + 1010  # due, but the driver is first
    stage.decide()
    assert stage.attempt.stop_reason == ""
    plan = stage.decide(11)
    assert kinds(plan) == ["WriteStatus", "PatchControl"]
    control = control_of(plan)
    assert control.stop is not None
    assert (control.attempt_id, control.stop.reason, control.stop.grace_seconds) == (stage.own, reason, 10)
    assert stage.state == "Unknown/Stopping"
    assert events(plan) == ["Stopping"]


def test_class_limits_the_total() -> None:
    stage = Stage(sweep_class=klass(limits={"totalSeconds": 500})).running().reporting()
    assert stage.status.deadlines.total == to_text(NOW + 500)
    stage.decide(515)
    assert stage.attempt.stop_reason == "TotalDeadlineExceeded"


def test_stop_and_verdict_stand_in_one_control_document() -> None:
    stage = obeyed(with_deadlines(runSeconds=1000).running().reporting())
    stage.decide(1030)
    stage.pods = (head(control=Control(attempt_id=stage.own)),)
    control = control_of(stage.waiting().looked().decide(5))
    assert control.stop is not None
    assert control.verdict is not None


def test_driver_that_does_not_obey_is_given_up_after_grace_and_verdict() -> None:
    stage = with_deadlines(runSeconds=1000).running().reporting()
    stage.decide(1030)
    stage.decide(10 + 100 + 55)
    assert stage.attempt.ended_at is None
    stage.decide(10)
    assert stage.attempt.reason == "StopNotObeyed"
    stage.settled()
    assert stage.state == "False/DeadlineExceeded"


def test_drivers_own_deadline_ends_with_verified_checkpoints() -> None:
    stage = with_deadlines(runSeconds=1000).running().waiting()
    stage.looked(outcome=Outcome.DEADLINE_EXCEEDED).decide(5)
    stage.ended(outcome=Outcome.DEADLINE_EXCEEDED)
    stage.decide()
    stage.decide(1)
    assert stage.state == "False/DeadlineExceeded"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


# ---------------------------------------------------------------------------------------------- startup


def test_startup_ends_with_the_first_report_not_with_the_head() -> None:
    stage = with_deadlines(startupSeconds=100).running()
    stage.decide(95)
    assert stage.attempt.stop_reason == "StartupDeadlineExceeded"
    other = with_deadlines(startupSeconds=100).running().reporting()
    other.decide(95)
    assert other.attempt.stop_reason == ""
    assert other.status.deadlines.startup is None


def test_startup_without_a_driver_ends_at_once_with_what_it_waited_for() -> None:
    stage = with_deadlines(startupSeconds=100).launched()
    stage.pods = (head(phase="Pending"),)
    stage.situation = Situation(stage.now, pods=(pod_body("h", head=True, unscheduled="0/3 nodes are available."),))
    stage.decide(50)
    plan = stage.decide(51)
    assert stage.attempt.reason == "StartupDeadlineExceeded"
    assert "0/3 nodes" in stage.attempt.message
    assert only(plan, model.Settle)
    stage.settled()
    assert stage.attempt.end_class == "Startup"
    assert stage.status.retries.startup.used == 1


def test_who_cannot_read_heartbeats_cannot_say_that_nothing_has_reported() -> None:
    stage = with_deadlines(startupSeconds=100).running()
    stage.progress = Unreadable("503")
    stage.decide(200)
    assert stage.attempt.stop_reason == ""
    stage.reporting(Phase.STARTING, first_report_at=None)
    stage.decide(5)
    assert stage.attempt.stop_reason == "StartupDeadlineExceeded"


def test_unreadable_store_does_not_keep_a_cluster_that_never_came() -> None:
    stage = with_deadlines(startupSeconds=100).launched()
    stage.progress = Unreadable("403", denied=True)
    stage.decide(101)
    assert stage.attempt.reason == "StartupDeadlineExceeded"


# ---------------------------------------------------------------------------------------------- edits


def test_raised_deadline_moves_the_backstop_before_the_status() -> None:
    stage = with_deadlines(runSeconds=1000).running().reporting()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=1410)
    stage.spec = spec(deadlines={"runSeconds": 3000})
    plan = stage.decide(5)
    assert kinds(plan) == ["PatchRayJob", "WriteStatus"]
    assert only(plan, model.PatchRayJob)[0].spec == {"activeDeadlineSeconds": 3410}
    assert stage.status.deadlines.run == to_text(NOW + 3000)


def test_removed_deadline_moves_the_backstop_out_of_reach() -> None:
    stage = with_deadlines(runSeconds=1000).running().reporting()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=1410)
    stage.spec = spec()
    assert only(stage.decide(5), model.PatchRayJob)[0].spec == {"activeDeadlineSeconds": 2**31 - 1}


def test_lowered_deadline_leaves_the_backstop() -> None:
    stage = with_deadlines(runSeconds=1000).running().reporting()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=1410)
    stage.spec = spec(deadlines={"startupSeconds": 100, "runSeconds": 500})
    assert kinds(stage.decide(5)) == ["WriteStatus"]


# ---------------------------------------------------------------------------------------------- between attempts


def test_no_attempt_starts_for_which_the_total_leaves_no_time() -> None:
    stage = Stage(
        spec=spec(
            deadlines={"startupSeconds": 100, "totalSeconds": 105},
            failurePolicy={"backoff": {"initialSeconds": 100, "maxSeconds": 100}},
        )
    ).running()
    stage.ended().settled()
    assert stage.state == "False/DeadlineExceeded"
    assert stage.status.retries.application.used == 0


@pytest.mark.parametrize("obstacle", ["class", "spec", "time"])
def test_total_passes_while_the_next_attempt_waits(obstacle: str) -> None:
    stage = with_deadlines(startupSeconds=100, totalSeconds=500).running()
    stage.ended().settled()
    stage.torn_down()
    if obstacle == "class":
        stage.class_error = "TrainSweepClass a10g does not exist"
    if obstacle == "spec":
        stage.spec = {"objective": {}}
    stage.decide(600)
    assert stage.state == "False/DeadlineExceeded"
    assert stage.finalizers == ()


def test_name_conflict_ends_at_the_startup_deadline() -> None:
    stage = with_deadlines(startupSeconds=100).launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, sweep_uid="somebody-else")
    stage.decide(5)
    assert stage.state == "Unknown/NameConflict"
    stage.decide(100)
    assert stage.attempt.ended_at is not None


# ---------------------------------------------------------------------------------------------- queue, stall, calendar


def worker(**changes: Any) -> model.PodView:
    """A worker pod."""
    return model.PodView(**({"name": "w", "uid": "w", "head": False, "phase": "Running"} | changes))


def test_queue_ends_when_head_and_a_worker_run_and_startup_begins_then() -> None:
    stage = with_deadlines(queuedSeconds=500, startupSeconds=100).running()
    assert stage.status.deadlines.queued == to_text(NOW + 500)
    assert stage.status.deadlines.startup is None
    stage.pods = (head(), worker(phase="Pending"))
    stage.decide(290)
    assert stage.attempt.placed_at is None
    stage.pods = (head(), worker())
    stage.decide(100)
    assert stage.attempt.placed_at == to_text(NOW + 400)
    assert (stage.status.deadlines.queued, stage.status.deadlines.startup) == (None, to_text(NOW + 500))
    stage.decide(100)
    assert stage.attempt.stop_reason == "StartupDeadlineExceeded"


def test_queue_that_takes_too_long_ends_with_the_layer_that_kept_it() -> None:
    attempts = {"attempts": {"startup": 0}}
    stage = Stage(spec=spec(deadlines={"queuedSeconds": 500}, failurePolicy=attempts)).launched()
    stage.job_is("Suspended", suspended=True)
    stage.decide(490)
    assert stage.attempt.stop_reason == ""
    stage.decide(11)
    assert (stage.attempt.stop_reason, stage.attempt.reason) == ("QueuedDeadlineExceeded", "StoppedBeforeStart")
    stage.settled(required=0, verified=0)
    assert stage.state == "False/QueuedDeadlineExceeded"
    assert "retries for Startup ends" in stage.condition(Condition.SUCCEEDED).message


def test_without_a_queue_deadline_startup_covers_the_wait() -> None:
    stage = with_deadlines(startupSeconds=100).launched()
    assert stage.status.deadlines.startup == to_text(NOW + 100)


def test_kuberays_startup_backstop_covers_the_queue_too() -> None:
    assert (
        body_of(with_deadlines(queuedSeconds=500, startupSeconds=100))["preRunningDeadlineSeconds"] == 500 + 100 + 120
    )


def stalled(**changes: Any) -> Stage:
    """A sweep whose last report is `NOW + 10`; its driver may go on to say so."""
    stage = with_deadlines(stallSeconds=600, startupSeconds=100).running()
    return stage.reporting(last_step_at=NOW + 10, **changes)


def test_stall_is_left_to_the_driver_first() -> None:
    stage = stalled()
    stage.decide(31)  # a measured value: it is written with the next status
    assert stage.status.deadlines.stall == to_text(NOW + 610)
    stage.now = NOW + 610 + 69
    stage.reporting(last_step_at=NOW + 10).decide()
    assert stage.attempt.stop_reason == ""
    stage.now += 2
    stage.reporting(last_step_at=NOW + 10).decide()
    assert stage.attempt.stop_reason == "StallDeadlineExceeded"


def test_driver_without_a_heartbeat_is_stalled_whatever_it_does() -> None:
    stage = stalled(phase=Phase.SETTLING)
    stage.now += 600 + 75
    stage.decide()
    assert stage.attempt.stop_reason == "StallDeadlineExceeded"
    stage.decide(10 + 100 + 61)
    stage.settled()
    assert stage.attempt.end_class == "Infrastructure"


def test_settling_takes_no_step_and_is_no_stall() -> None:
    stage = stalled()
    stage.now = NOW + 5000
    stage.reporting(Phase.SETTLING, last_step_at=NOW + 10).decide()
    assert stage.attempt.stop_reason == ""


def test_unreadable_heartbeat_is_no_stall() -> None:
    stage = stalled()
    stage.decide()
    stage.progress = Unreadable("the store is away")
    stage.decide(5000)
    assert stage.attempt.stop_reason == ""


def test_drivers_own_stall_is_booked_to_the_application_and_resumed() -> None:
    stage = stalled().waiting()
    stage.looked(outcome=Outcome.STOPPED, outcome_reason="StallDeadlineExceeded").decide(5)
    stage.ended(outcome=Outcome.STOPPED, reason="StallDeadlineExceeded")
    stage.decide(5)
    stage.decide(1)
    assert stage.attempt.end_class == "Application"
    assert stage.status.retries.application.used == 1


def test_calendar_ends_the_sweep_with_verified_checkpoints() -> None:
    stage = with_deadlines(notAfter=to_text(NOW + 1000)).running().reporting()
    assert stage.status.deadlines.not_after == to_text(NOW + 1000)
    stage.decide(1005)
    assert stage.attempt.stop_reason == ""
    stage.decide(10)
    assert stage.attempt.stop_reason == "NotAfterPassed"
    stage.waiting().looked(outcome=Outcome.STOPPED).decide(5)
    stage.ended(outcome=Outcome.STOPPED)
    stage.decide(5)
    stage.decide(1)
    assert stage.state == "False/DeadlineExceeded"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


def test_sweep_that_comes_after_its_date_never_launches() -> None:
    stage = with_deadlines(notAfter=to_text(NOW - 1))
    assert kinds(stage.decide()) == ["WriteStatus"]
    assert stage.state == "False/DeadlineExceeded"
    # It holds nothing: who waits for that must be told.
    assert stage.condition(Condition.RELEASED).status == "True"
    assert kinds(stage.decide(100)) == []


def test_date_that_is_none_is_refused() -> None:
    stage = with_deadlines(notAfter="2027-13-31T18:00:00Z")
    stage.decide()
    assert stage.state == "Unknown/InvalidSpec"


# ---------------------------------------------------------------------------------------------- changed while running


def told(stage: Stage) -> Stage:
    """The head pod carries the limits as they were rendered."""
    stage.pods = (head(control=Control(attempt_id=stage.own, limits=Limits(deadline_at=NOW + 1000))),)
    return stage


def test_limits_that_did_not_change_are_not_written_again() -> None:
    stage = told(with_deadlines(runSeconds=1000, startupSeconds=100).running().reporting())
    assert not only(stage.decide(5), model.PatchControl)


@pytest.mark.parametrize(("seconds", "at"), [(2000, NOW + 2000), (500, NOW + 500), (None, None)])
def test_changed_deadline_reaches_the_driver_after_the_backstop(seconds: int | None, at: float | None) -> None:
    stage = told(with_deadlines(runSeconds=1000, startupSeconds=100).running().reporting())
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=1410)
    stage.spec = spec(deadlines={"startupSeconds": 100, **({"runSeconds": seconds} if seconds else {})})
    plan = stage.decide(5)
    limits = control_of(plan).limits
    assert limits is not None
    assert limits.deadline_at == at
    backstops = [a.spec["activeDeadlineSeconds"] for a in only(plan, model.PatchRayJob)]
    assert backstops == {2000: [2410], 500: [], None: [2**31 - 1]}[seconds]
    if backstops:
        assert kinds(plan) == ["PatchRayJob", "WriteStatus", "PatchControl"]


def test_stall_and_trial_limits_reach_the_driver_too() -> None:
    stage = told(with_deadlines(runSeconds=1000, startupSeconds=100).running().reporting())
    stage.spec = spec(deadlines={"runSeconds": 1000, "startupSeconds": 100, "stallSeconds": 60, "trialSeconds": 90})
    limits = control_of(stage.decide(5)).limits
    assert limits == Limits(deadline_at=NOW + 1000, stall_seconds=60, trial_seconds=90)
