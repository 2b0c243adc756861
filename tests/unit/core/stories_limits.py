"""Stories of deadlines, stalls and budgets, at the second at which they come."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.core_builders import NOW, head, spec
from tests.unit.core.story_parts import limited, obey, second, story, told
from tests.unit.core.told import Told
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.core.model import (
    Proof,
    RayJobView,
)
from trainsweep.core.times import to_text


@story
def runs_out_of_time_and_obeys() -> Told:
    stage = limited(runSeconds=100, totalSeconds=5000)
    stage.running().reporting().decide(5)
    stage.title("before the operator's margin").now = NOW + 110
    stage.reporting().decide()
    stage.title("after it").now = NOW + 121
    stage.reporting()
    obey(stage)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="RunDeadlineExceeded")
    stage.decide(5)
    return stage


@story
def runs_out_of_time_and_does_not_obey() -> Told:
    stage = second(limited(totalSeconds=500))
    stage.now = NOW + 515
    stage.reporting()
    obey(stage)
    stage.decide(169)
    stage.decide(1)
    stage.settled()
    return stage


@story
def nothing_reports_before_the_startup_deadline() -> Told:
    stage = told(deadlines={"startupSeconds": 100})
    stage.launched()
    stage.decide(99)
    stage.decide(1)
    stage.settled()
    return stage


@story
def no_node_comes_before_the_queued_deadline() -> Told:
    stage = told(deadlines={"startupSeconds": 100, "queuedSeconds": 60})
    stage.launched()
    stage.pods = (head(phase="Pending", ready=False, problem_layer="Placement", problem_message="no node"),)
    stage.decide(59)
    stage.decide(1)
    return stage


@story
def no_trial_reports_any_more() -> Told:
    stage = limited(stallSeconds=60)
    stage.running().reporting(last_step_at=stage.now).decide(5)
    stage.decide(60)
    stage.decide(70)
    return stage


@story
def a_deadline_is_raised_then_removed() -> Told:
    stage = limited(runSeconds=100)
    stage.running().reporting().decide(5)
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=530)
    stage.title("raised").spec = spec(deadlines={"startupSeconds": 50, "runSeconds": 2000})
    stage.generation = 2
    obey(stage)
    stage.job = replace(stage.job, active_deadline_seconds=2430)
    stage.decide(5)
    stage.title("removed").spec = spec()
    stage.generation = 3
    obey(stage)
    return stage


@story
def comes_after_its_date() -> Told:
    stage = told(deadlines={"startupSeconds": 1000, "notAfter": to_text(NOW - 10)})
    stage.decide()
    stage.decide(60)
    return stage


@story
def its_budget_is_used_up() -> Told:
    stage = told(budget={"cpuHours": 0.1})
    stage.running().pods = (head(cpus=4, started_at=NOW),)
    stage.reporting().decide(30)
    stage.title("a second before 360 CPU-seconds").now = NOW + 89
    stage.decide()
    stage.now = NOW + 85
    obey(stage)
    return stage


@story
def no_time_is_left_for_a_further_attempt() -> Told:
    stage = told(deadlines={"startupSeconds": 50, "totalSeconds": 60})
    stage.running().reporting().decide(40)
    stage.ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    return stage


@story
def is_stopped_after_its_receipt() -> Told:
    """What was missing could not be mended any more: the stop is what counts, not the receipt's word."""
    stage = limited(runSeconds=100)
    stage.running().reporting().decide(5)
    stage.now = NOW + 121
    stage.waiting().looked(Proof.MISSING)
    obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="RunDeadlineExceeded")
    stage.settled(Proof.MISSING, "d" * 64)
    return stage
