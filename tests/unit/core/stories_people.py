"""Stories of what people do: suspend, delete, force, take a name, ask for the next attempt."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.core_builders import spec
from tests.unit.core.story_parts import obey, second, story, told
from tests.unit.core.told import Told
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.contract.labels import FORCE_RELEASE, RETRY_NOW
from trainsweep.core.model import (
    HoldView,
    RayJobView,
)
from trainsweep.core.times import to_text


@story
def is_suspended_and_resumed() -> Told:
    stage = second()
    stage.title("suspended").spec = spec(suspend=True)
    stage.generation = 2
    obey(stage)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="Suspended")
    stage.decide(5)
    stage.torn_down()
    stage.decide(5)
    stage.title("resumed").spec = spec()
    stage.generation = 3
    stage.now += 100
    stage.running().reporting().decide(60)
    return stage


@story
def is_created_suspended() -> Told:
    stage = told(suspend=True)
    stage.decide()
    stage.hold = HoldView("h", "u")
    stage.decide(5)
    return stage


@story
def is_deleted_while_it_runs() -> Told:
    stage = second()
    stage.title("deleted").deleted_at = stage.now
    obey(stage)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="Deleted")
    stage.decide(5)
    stage.torn_down()
    stage.decide(3)
    return stage


@story
def is_deleted_and_does_not_stop() -> Told:
    stage = told()
    stage.running().reporting().decide(5)
    stage.deleted_at = stage.now
    obey(stage)
    stage.decide(180)
    stage.decide(114)
    stage.title("the grace is over").decide(1)
    stage.torn_down()
    return stage


@story
def is_released_by_force() -> Told:
    stage = second()
    stage.deleted_at, stage.annotations = stage.now, {FORCE_RELEASE: "true"}
    stage.decide(5)
    stage.torn_down()
    return stage


@story
def is_deleted_when_its_spec_cannot_be_read() -> Told:
    stage = told()
    stage.running().reporting().decide(5)
    stage.spec, stage.deleted_at = {"trials": 3}, stage.now
    stage.decide(5)
    stage.decide(594)
    stage.decide(1)
    return stage


@story
def the_next_attempt_is_asked_for() -> Told:
    stage = told()
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    stage.torn_down()
    for ahead in (-1000, 120, 30):
        stage.title(f"asked {ahead} s from now").annotations = {RETRY_NOW: to_text(stage.now + ahead)}
        stage.decide()
    return stage


@story
def somebody_elses_ray_job_has_the_name() -> Told:
    stage = told()
    stage.launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, sweep_uid="other")
    stage.decide(5)
    stage.decide(60)
    stage.job = None
    stage.title("it is gone").decide(60)
    return stage


@story
def its_ray_job_is_refused() -> Told:
    stage = told()
    stage.decide()
    stage.refusal = "exceeded quota"
    stage.decide(5)
    stage.decide(5)
    stage.decide(989)
    stage.title("the startup deadline").decide(1)
    stage.settled()
    return stage


@story
def its_hold_is_deleted() -> Told:
    stage = second()
    stage.hold = None
    stage.decide(5)
    return stage


@story
def its_rendering_is_refused() -> Told:
    stage = told(training={"workers": {"count": 1, "resources": {"memory": "1Gi", "cpu": None}}})
    stage.decide()
    stage.decide(60)
    return stage
