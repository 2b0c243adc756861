"""Letting go: the lease, the hold, the last pod; then the finalizer, and much later the RayJob object."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.core_builders import Stage, head, kinds, only, spec
from tests.unit.core.test_core_settle import completed
from trainsweep.api.conditions import Condition
from trainsweep.core import model
from trainsweep.core.model import FINALIZER, HoldView, RayJobView, Unreadable


def finished() -> Stage:
    """Succeeded; the release has been asked for."""
    stage = completed()
    stage.decide(5)
    return stage


def test_release_cuts_the_lease_then_deletes_the_hold_after_the_status() -> None:
    plan = completed().decide(5)
    assert kinds(plan) == ["WriteStatus", "PatchRayJob", "DeleteHold"]
    assert only(plan, model.PatchRayJob)[0].spec == {"ttlSecondsAfterFinished": 0}


def test_released_only_when_pods_and_hold_are_gone() -> None:
    stage = finished()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, ttl_seconds=0)
    assert kinds(stage.decide(3)) == ["DeleteHold"]
    stage.hold = None
    assert kinds(stage.decide(3)) == []
    assert stage.condition(Condition.RELEASED).status == "False"
    stage.pods = (head(deleting=True),)
    assert kinds(stage.decide(3)) == []
    stage.pods = ()
    plan = stage.decide(3)
    assert kinds(plan) == ["WriteStatus", "RemoveFinalizer"]
    assert stage.condition(Condition.RELEASED).status == "True"
    assert stage.attempt.gone_at is not None


@pytest.mark.parametrize("what", ["pods", "hold", "job"])
def test_unreadable_is_not_gone(what: str) -> None:
    stage = finished()
    assert isinstance(stage.job, RayJobView)
    stage.job, stage.hold, stage.pods = replace(stage.job, ttl_seconds=0), None, ()
    setattr(stage, what, Unreadable("503"))
    stage.decide(3)
    assert stage.attempt.gone_at is None
    assert FINALIZER in stage.finalizers


def test_attempt_that_kubery_has_not_ended_is_deleted() -> None:
    stage = Stage().running().head_is_lost()
    plan = stage.settled()
    assert only(plan, model.DeleteRayJob) == [model.DeleteRayJob(stage.attempt.ray_job, "job-1")]
    assert not only(plan, model.PatchRayJob)


def test_deleting_ray_job_is_waited_for() -> None:
    stage = Stage().running().head_is_lost()
    stage.settled()
    assert isinstance(stage.job, RayJobView)
    stage.job, stage.pods, stage.hold = replace(stage.job, deleting=True), (), None
    plan = stage.decide(3)
    assert not only(plan, model.DeleteRayJob)
    assert stage.attempt.gone_at is None


def test_foreign_ray_job_is_never_deleted_and_never_waited_for() -> None:
    stage = Stage().running().head_is_lost()
    assert isinstance(stage.job, RayJobView)
    stage.settled()
    stage.job = replace(stage.job, sweep_uid="somebody-else")
    stage.cluster, stage.pods, stage.hold = None, (), None  # by our labels: the other's is not looked at
    plan = stage.decide(3)
    assert not only(plan, model.DeleteRayJob)
    assert stage.attempt.gone_at is not None


def test_terminal_sweep_never_launches_again() -> None:
    stage = finished().torn_down()
    stage.job = None
    stage.spec = spec(failurePolicy={"attempts": {"application": 50}})
    stage.generation = 2
    for _ in range(3):
        assert "CreateRayJob" not in kinds(stage.decide(100))
    assert stage.state == "True/Completed"
    assert stage.status.observed_generation == 2


def test_terminal_is_latched_against_whatever_children_say() -> None:
    stage = finished()
    stage.job_is("Failed", "FAILED")
    stage.looked(model.Proof.MISSING)
    stage.decide(5)
    assert stage.state == "True/Completed"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


def test_ray_job_object_goes_after_its_time() -> None:
    stage = finished().torn_down()
    plan = stage.decide(1)
    assert kinds(plan) == []
    assert plan.wake_at == pytest.approx(stage.now + 86400, abs=30)
    assert kinds(stage.decide(86400)) == ["DeleteRayJob"]


def test_hold_that_was_made_again_after_the_end_is_deleted() -> None:
    stage = finished().torn_down()
    stage.hold = HoldView("digits-x-hold", "u")
    assert kinds(stage.decide(5)) == ["DeleteHold"]


def test_settled_attempt_is_released_although_the_spec_cannot_be_read_any_more() -> None:
    stage = Stage().running().ended()
    stage.settled()
    stage.spec = {"objective": {}}
    assert "PatchRayJob" in kinds(stage.decide(3))


def test_ray_job_object_goes_also_when_the_spec_cannot_be_read_any_more() -> None:
    stage = finished().torn_down()
    stage.spec = {"objective": {}}
    stage.decide(60)
    assert kinds(stage.decide(86400)) == ["DeleteRayJob"]
