"""spec.suspend: a graceful stop that is settled and released, costs no retry, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.core_builders import NOW, Stage, control_of, events, head, kinds, last_word, only, spec
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Control, FailureReason, Outcome, Phase, StopRequest
from trainsweep.core import model
from trainsweep.core.model import FINALIZER, ClusterView, Proof, Unreadable


def suspended(stage: Stage, flag: bool = True) -> Stage:
    """Somebody sets spec.suspend."""
    stage.spec = {**stage.spec, "suspend": flag}
    stage.generation += 1
    return stage


def stopped(stage: Stage) -> Stage:
    """Running, suspended, and the driver has obeyed: settled, proven, ended."""
    suspended(stage.running().reporting()).decide(5)
    stage.waiting().looked(outcome=Outcome.STOPPED).decide(5)
    stage.ended(outcome=Outcome.STOPPED, reason="Suspended")
    stage.decide(5)
    stage.decide(1)
    return stage


def test_created_suspended_never_launches_and_writes_once() -> None:
    stage = Stage(spec=spec(suspend=True))
    assert kinds(stage.decide()) == ["WriteStatus"]
    assert stage.state == "Unknown/Suspended"
    assert stage.condition(Condition.SUSPENDED).status == "True"
    assert stage.condition(Condition.ADMITTED).status == "True"
    assert not stage.has(Condition.RECONCILING)
    assert not stage.has(Condition.STALLED)
    assert stage.decide(100_000).actions == ()


def test_resumed_before_the_first_launch_starts_attempt_1() -> None:
    stage = Stage(spec=spec(suspend=True))
    stage.decide()
    plan = suspended(stage, False).decide(10)
    assert only(plan, model.CreateRayJob)
    assert stage.attempt.number == 1
    assert not stage.has(Condition.SUSPENDED)
    assert stage.has(Condition.RECONCILING)


def test_suspended_says_what_would_be_refused() -> None:
    stage = Stage(spec=spec(suspend=True, storage={"uri": "s3://other/place"}))
    stage.decide()
    assert stage.condition(Condition.ADMITTED).status == "False"
    assert stage.state == "Unknown/Suspended"


def test_running_driver_is_asked_to_stop_and_nothing_is_released_before_the_settlement() -> None:
    stage = suspended(Stage().running().reporting())
    plan = stage.decide(5)
    stop = control_of(plan).stop
    assert stop is not None
    assert (stop.reason, stop.grace_seconds) == ("Suspended", 10)
    assert kinds(plan) == ["WriteStatus", "PatchControl"]
    assert events(plan) == ["Stopping"]
    assert stage.state == "Unknown/Stopping"
    stage.waiting().looked(outcome=Outcome.STOPPED)
    plan = stage.decide(5)
    assert control_of(plan).verdict is not None
    assert not only(plan, model.DeleteRayJob)


def test_stopped_attempt_is_proven_released_and_leaves_nothing() -> None:
    stage = stopped(Stage())
    assert stage.attempt.end_class == "Suspended"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    stage.torn_down()
    plan = stage.decide(1)
    assert events(plan) == ["Suspended"]
    assert stage.state == "Unknown/Suspended"
    assert stage.condition(Condition.RELEASED).status == "True"
    assert stage.finalizers == ()
    assert stage.decide(1000).actions == ()


def test_resume_is_the_next_attempt_at_once_and_costs_no_retry() -> None:
    stage = stopped(Stage()).torn_down()
    stage.decide(1)
    suspended(stage, False).launched()
    assert stage.attempt.number == 2
    assert FINALIZER in stage.finalizers
    assert [
        getattr(stage.status.retries, n).used for n in ("application", "infrastructure", "eviction", "startup")
    ] == [0] * 4
    assert stage.attempt.stop_reason == ""


def test_stale_stop_never_reaches_the_resumed_driver() -> None:
    stage = stopped(Stage()).torn_down()
    stage.decide(1)
    suspended(stage, False).running()
    old = Control(attempt_id="1-" + stage.own[2:], stop=StopRequest(reason="Suspended"))
    stage.pods = (head(control=old),)  # whatever wrote it there
    plan = stage.reporting().decide(5)
    assert all(a.control.stop is None and a.control.attempt_id == stage.own for a in only(plan, model.PatchControl))
    plan = stage.waiting().looked().decide(5)
    assert control_of(plan).stop is None


def test_resume_that_comes_before_the_driver_has_ended_goes_on_with_the_next_attempt() -> None:
    stage = suspended(Stage().running().reporting())
    stage.decide(5)
    suspended(stage, False).ended(outcome=Outcome.STOPPED)
    stage.settled(outcome=Outcome.STOPPED)
    stage.torn_down()
    stage.launched()
    assert stage.attempt.number == 2
    assert stage.status.retries.eviction.used == 0


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(Outcome.FAILED, FailureReason.STORAGE_UNAVAILABLE), (Outcome.FAILED, FailureReason.INTERNAL)],
)
def test_fault_while_stopping_costs_no_retry_either(outcome: Outcome, reason: FailureReason) -> None:
    stage = suspended(Stage().running().reporting())
    stage.decide(5)
    stage.ended(outcome=outcome, reason=reason)
    stage.settled()
    assert stage.attempt.end_class == "Suspended"


def test_driver_that_does_not_obey_is_ended_and_the_sweep_stays_suspended() -> None:
    stage = suspended(Stage().running().reporting())
    stage.decide(5)
    stage.decide(10 + 100 + 61)
    assert stage.attempt.reason == "StopNotObeyed"
    stage.settled()
    stage.torn_down()
    stage.decide(1)
    assert stage.state == "Unknown/Suspended"


def half_a_cluster() -> Stage:
    """Its head runs and no worker ever comes: KubeRay submits nothing to it. Suspended, and the head was told."""
    stage = Stage().running()
    assert isinstance(stage.cluster, ClusterView)
    stage.job_is("Initializing")
    stage.cluster = replace(stage.cluster, state="", provisioned=False)
    plan = suspended(stage).decide(5)
    assert stage.attempt.ended_at is None, "the head is told first: a driver that we do not see yet then trains nothing"
    stage.pods = (head(control=control_of(plan)),)
    return stage


def test_cluster_that_never_became_whole_has_no_driver_that_could_obey() -> None:
    stage = half_a_cluster()
    stage.decide(5)
    assert stage.attempt.reason == "StoppedBeforeStart"
    stage.settled(Proof.PERSISTED)
    stage.torn_down()
    stage.decide(1)
    assert stage.state == "Unknown/Suspended"
    assert stage.attempt.end_class == "Suspended"


@pytest.mark.parametrize("seen", ["submitted", "heartbeat", "blind", "not told"])
def test_driver_that_may_run_is_waited_for(seen: str) -> None:
    stage = half_a_cluster()
    match seen:
        case "submitted":
            stage.job_is("Running")
        case "heartbeat":
            stage.reporting()
        case "blind":
            stage.progress = Unreadable("no answer")
        case _:
            stage.pods = (head(),)
    stage.decide(5)
    assert stage.attempt.ended_at is None


def test_permanent_cause_ends_the_sweep_also_while_it_is_suspended() -> None:
    stage = suspended(Stage().running().reporting())
    stage.decide(5)
    stage.ended(outcome=Outcome.FAILED, reason=FailureReason.BAD_ENTRYPOINT)
    stage.settled()
    assert stage.state == "False/PermanentFailure"


def test_training_that_is_done_is_not_stopped_any_more() -> None:
    stage = suspended(Stage().running().waiting())
    plan = stage.looked().decide(5)
    assert control_of(plan).stop is None
    stage.ended("Complete", "SUCCEEDED", outcome=Outcome.COMPLETED)
    stage.decide(5)
    assert stage.state == "True/Completed"


def test_cut_off_while_mending_is_mended_by_the_next_attempt() -> None:
    stage = suspended(Stage().running().reporting(Phase.SETTLING))
    stage.decide(5)
    stage.waiting().looked(Proof.MISSING, outcome=Outcome.COMPLETED).decide(5)
    stage.ended(outcome=Outcome.STOPPED, reason="Suspended")
    stage.decide(5)
    stage.decide(1)
    stage.looked(Proof.MISSING, outcome=Outcome.COMPLETED).decide(1)
    assert stage.attempt.end_class == "Suspended"


def test_starting_attempt_is_let_go_and_its_end_books_nothing() -> None:
    stage = suspended(Stage().launched())
    stage.decide(5)
    assert stage.attempt.reason == "StoppedBeforeStart"
    stage.settled(Proof.PERSISTED, required=0, verified=0)
    stage.torn_down()
    stage.decide(1)
    assert stage.state == "Unknown/Suspended"
    assert stage.status.retries.startup.used == 0


def test_recorded_but_never_posted_is_let_go() -> None:
    stage = Stage()
    stage.decide()
    plan = suspended(stage).decide(5)
    assert not only(plan, model.CreateRayJob)
    assert stage.attempt.reason == "StoppedBeforeStart"


def test_suspension_in_a_backoff_waits_without_a_launch() -> None:
    stage = Stage().running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    stage.torn_down()
    suspended(stage).decide(1)
    assert stage.state == "Unknown/Suspended"
    assert stage.decide(1000).actions == ()
    suspended(stage, False).launched()
    assert stage.attempt.number == 2
    assert stage.status.retries.application.used == 1


def test_total_deadline_runs_on_while_suspended() -> None:
    stage = stopped(Stage(spec=spec(deadlines={"totalSeconds": 5000}))).torn_down()
    stage.decide(1)
    plan = stage.decide(10)
    assert plan.wake_at == NOW + 5000
    stage.decide(5000)
    assert stage.state == "False/DeadlineExceeded"


def test_deadline_that_was_asked_for_first_stays() -> None:
    stage = Stage(spec=spec(deadlines={"runSeconds": 1000})).running().reporting()
    stage.decide(1030)
    suspended(stage).decide(1)
    assert stage.attempt.stop_reason == "RunDeadlineExceeded"


def test_deleted_while_suspended_goes_at_once() -> None:
    stage = stopped(Stage()).torn_down()
    stage.decide(1)
    stage.deleted_at = stage.now
    assert stage.decide(1).actions == ()  # no finalizer: the garbage collector takes the rest


def test_deleted_while_it_stops_is_settled_first() -> None:
    stage = suspended(Stage().running().reporting())
    stage.decide(5)
    stage.deleted_at = stage.now
    assert not only(stage.decide(1), model.DeleteRayJob)
    stage.end = last_word(stage.own, Outcome.STOPPED)
    stage.job_is("Failed", "FAILED")
    assert only(stage.settled(outcome=Outcome.STOPPED), model.DeleteRayJob)


def test_raycluster_suspended_by_kueue_is_still_an_eviction() -> None:
    stage = Stage().running().reporting()
    assert isinstance(stage.job, model.RayJobView)
    stage.job = replace(stage.job, deployment_status="Suspended", job_status="", suspended=True)
    stage.settled()
    assert stage.attempt.end_class == "Eviction"
