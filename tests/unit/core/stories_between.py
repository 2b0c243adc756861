"""Stories of second attempts, and of what comes between two."""

from __future__ import annotations

from typing import Any

from tests.unit.core.core_builders import NOW, head, spec
from tests.unit.core.story_parts import second, story, told
from tests.unit.core.told import Told
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.contract.labels import RETRY_NOW
from trainsweep.core.model import (
    Proof,
    Unreadable,
)
from trainsweep.core.times import to_text


def between_attempts(**changes: Any) -> Told:
    """An attempt has failed at +10 and is gone; the next one follows at +21."""
    stage = told(**changes)
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    stage.torn_down()
    stage.lines.clear()
    return stage


@story
def the_next_attempt_comes_to_the_second() -> Told:
    stage = between_attempts()
    stage.now = NOW + 20
    stage.decide()
    stage.decide(1)
    return stage


@story
def the_next_attempt_is_asked_for_to_the_second() -> Told:
    stage = between_attempts()
    for ahead in (61, 60):
        stage.title(f"asked {ahead} s from now").annotations = {RETRY_NOW: to_text(stage.now + ahead)}
        stage.decide()
    return stage


@story
def its_date_comes_between_two_attempts() -> Told:
    stage = between_attempts(deadlines={"startupSeconds": 1000, "notAfter": to_text(NOW + 100)})
    stage.spec = spec(deadlines={"startupSeconds": 1000, "notAfter": to_text(NOW + 20)})
    stage.now = NOW + 19
    stage.decide()
    stage.decide(1)
    return stage


@story
def its_total_comes_between_two_attempts() -> Told:
    stage = between_attempts(deadlines={"startupSeconds": 10, "totalSeconds": 100})
    stage.spec = spec(deadlines={"startupSeconds": 10, "totalSeconds": 20})
    stage.now = NOW + 19
    stage.decide()
    stage.decide(1)
    return stage


@story
def its_second_attempt_finds_no_image() -> Told:
    stage = second(told(failurePolicy={"attempts": {"infrastructure": 3, "startup": 3}}))
    stage.head_is_lost()
    stage.settled()
    stage.torn_down()
    stage.now += 100
    stage.title("the third attempt").launched()
    stage.pods = (
        head(
            phase="Pending",
            ready=False,
            problem_layer="Image",
            problem_reason="ErrImagePull",
            problem_message="manifest unknown",
            started_at=stage.now,
        ),
        head(name="w", head=False, phase="Pending", problem_layer="Container", problem_message="file not found"),
    )
    stage.decide(600)
    stage.decide(1)
    return stage


@story
def its_second_driver_ends_well_and_leaves_no_word() -> Told:
    stage = second()
    stage.job_is("Complete", "SUCCEEDED").end = Unreadable("503")
    stage.settled(Proof.PERSISTED, "d" * 64)
    return stage


@story
def its_second_driver_is_stopped_and_left_behind() -> Told:
    stage = second().orphaned()
    assert isinstance(stage, Told)
    stage.decide(5)
    stage.reporting()
    stage.decide(100)
    stage.reporting()
    stage.decide(65)
    stage.decide(5)
    return stage
