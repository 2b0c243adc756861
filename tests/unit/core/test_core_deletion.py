"""Deleting a sweep in each of its states: bounded by the grace and by force, and never before the settlement."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.core_builders import NOW, Stage, control_of, events, head, kinds, only
from tests.unit.core.test_core_release import finished
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Outcome
from trainsweep.contract.labels import FORCE_RELEASE
from trainsweep.core import model
from trainsweep.core.model import FINALIZER, Proof, RayJobView, Unreadable


def deleted(stage: Stage) -> Stage:
    """Somebody deletes the sweep now."""
    stage.deleted_at = stage.now
    return stage


def test_without_our_finalizer_nothing_is_done() -> None:
    stage = deleted(Stage())
    stage.generation = 2
    assert stage.decide().actions == ()


def test_never_launched_goes_at_once() -> None:
    stage = deleted(Stage(finalizers=(FINALIZER,)))
    assert kinds(stage.decide())[-1] == "RemoveFinalizer"


def test_recorded_but_never_posted_goes_without_a_settlement_and_posts_nothing() -> None:
    stage = Stage()
    stage.decide()
    plan = deleted(stage).decide(1)
    assert not only(plan, model.CreateRayJob)
    assert not only(plan, model.Settle)
    assert stage.finalizers == ()


def test_recorded_but_never_posted_takes_its_hold_along() -> None:
    stage = Stage()
    stage.decide()
    stage.hold = model.HoldView("h", "u")
    assert kinds(deleted(stage).decide(1)) == ["WriteStatus", "DeleteHold"]
    stage.hold = None
    assert kinds(stage.decide(3))[-1] == "RemoveFinalizer"


def test_cluster_without_its_workers_settles_at_once_and_goes() -> None:
    stage = Stage().running()
    stage.job_is("Initializing")
    plan = deleted(stage).decide(1)
    stage.pods = (head(control=control_of(plan)),)
    stage.decide(1)
    assert stage.attempt.reason == "StoppedBeforeStart"
    plan = stage.settled()
    assert only(plan, model.DeleteRayJob)


def test_starting_cluster_is_let_go_at_once() -> None:
    stage = deleted(Stage().launched())
    plan = stage.decide(1)
    assert only(plan, model.DeleteRayJob)
    assert not only(plan, model.Settle)
    assert stage.attempt.settled_at is not None


def test_running_driver_is_asked_to_stop_and_settled_first() -> None:
    stage = deleted(Stage().running().reporting())
    plan = stage.decide(1)
    stop = control_of(plan).stop
    assert stop is not None
    assert stop.reason == "Deleted"
    assert not only(plan, model.DeleteRayJob)
    assert events(plan) == ["Stopping"]
    stage.waiting()
    stage.looked(outcome=Outcome.STOPPED).decide(5)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    stage.ended(outcome=Outcome.STOPPED)
    stage.decide(5)
    plan = stage.decide(1)
    assert stage.attempt.settled_at is not None
    stage.job = None
    stage.pods, stage.hold, stage.cluster = (), None, None
    assert kinds(stage.decide(3)) == ["WriteStatus", "RemoveFinalizer"]
    assert stage.condition(Condition.FINISHED).status == "False"  # Deleted sets no outcome
    assert stage.status.retries.eviction.used == 0


def test_ray_job_and_hold_go_after_the_settlement() -> None:
    stage = deleted(Stage().running().reporting())
    stage.decide(1)
    stage.ended()
    plan = stage.settled()
    assert only(plan, model.DeleteRayJob)
    assert only(plan, model.DeleteHold)


def test_grace_bounds_a_driver_that_does_not_stop() -> None:
    stage = deleted(Stage().running().reporting())
    stage.decide(1)
    plan = stage.decide(150)
    assert stage.attempt.ended_at is None
    assert plan.wake_at is not None
    assert plan.wake_at <= NOW + 10 + 300
    plan = stage.decide(160)
    assert events(plan) == ["Forced"]
    assert only(plan, model.DeleteRayJob)
    stage.job, stage.cluster, stage.pods, stage.hold = None, None, (), None
    stage.decide(3)
    assert stage.condition(Condition.RELEASED).reason == "Forced"
    assert stage.finalizers == ()


def test_unreadable_store_is_waited_for_until_the_grace_is_over() -> None:
    stage = deleted(Stage().running().reporting())
    stage.decide(1)
    stage.ended()
    stage.settled(Proof.UNKNOWN)
    assert FINALIZER in stage.finalizers
    assert stage.attempt.settled_at is None
    plan = stage.decide(300)
    assert events(plan) == ["Forced"]


def test_force_release_acts_at_once_and_only_in_a_deletion() -> None:
    stage = Stage().running().reporting()
    stage.annotations = {FORCE_RELEASE: "yes"}
    assert not only(stage.decide(1), model.DeleteRayJob)
    plan = deleted(stage).decide(1)
    assert only(plan, model.DeleteRayJob)
    assert events(plan) == ["Forced"]
    assert events(stage.decide(3)) == []


def test_forced_stays_forced_when_the_annotation_goes() -> None:
    stage = deleted(Stage().running().reporting())
    stage.annotations = {FORCE_RELEASE: "yes"}
    stage.decide(1)
    stage.annotations = {}
    assert only(stage.decide(1), model.DeleteRayJob)


def test_terminal_sweep_in_release_goes_with_its_ray_job() -> None:
    stage = deleted(finished())
    plan = stage.decide(1)
    assert only(plan, model.DeleteRayJob)
    assert not only(plan, model.Settle)
    stage.job, stage.cluster, stage.pods, stage.hold = None, None, (), None
    assert kinds(stage.decide(3))[-1] == "RemoveFinalizer"


def test_between_two_attempts_the_old_ray_job_goes_and_its_pods_are_not_asked_for_again() -> None:
    stage = Stage().running().ended()
    stage.settled()
    stage.torn_down()
    stage.pods = None
    plan = deleted(stage).decide(1)
    assert only(plan, model.DeleteRayJob)
    stage.job = None
    assert kinds(stage.decide(3))[-1] == "RemoveFinalizer"


def test_foreign_ray_job_does_not_keep_the_sweep() -> None:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job, stage.hold = replace(stage.job, sweep_uid="somebody-else"), None
    plan = deleted(stage).decide(1)
    assert not only(plan, model.DeleteRayJob)
    assert stage.finalizers == ()


@pytest.mark.parametrize("what", ["job", "pods"])
def test_unreadable_children_keep_the_finalizer(what: str) -> None:
    stage = deleted(Stage().running().reporting())
    setattr(stage, what, Unreadable("503"))
    stage.decide(400)
    stage.decide(3)
    assert FINALIZER in stage.finalizers


def test_spec_that_cannot_be_read_waits_for_the_grace() -> None:
    stage = Stage().running().reporting()
    stage.spec = {"objective": {}}
    deleted(stage).decide(1)
    assert stage.attempt.ended_at is None
    assert events(stage.decide(700)) == ["Forced"]
