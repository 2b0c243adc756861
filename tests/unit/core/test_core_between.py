"""Between two attempts and after the last: the time that is left, who is refused, who asked to go on, what is left lying."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import NOW, Stage, head, klass, only, spec
from tests.unit.core.test_core_release import finished
from trainsweep.api.conditions import Condition, Reason
from trainsweep.contract.labels import RETRY_NOW
from trainsweep.core import model
from trainsweep.core.decide import CLASS_RETRY_SECONDS
from trainsweep.core.model import RayJobView
from trainsweep.core.times import to_text


def failed(**deadlines: Any) -> Stage:
    """The first attempt ended at +10 and is settled at +11; the next one is due ten seconds later, at +21."""
    stage = Stage(spec=spec(deadlines={"startupSeconds": 10, **deadlines})).running()
    stage.head_is_lost()
    stage.settled()
    return stage


@pytest.mark.parametrize(
    ("deadlines", "state"),
    [
        pytest.param({"totalSeconds": 21}, "False/DeadlineExceeded", id="the total is over just then"),
        pytest.param({"totalSeconds": 22}, "Unknown/Retrying", id="a second of the total is left"),
        pytest.param({"notAfter": to_text(NOW + 21)}, "False/DeadlineExceeded", id="the date comes just then"),
        pytest.param({"notAfter": to_text(NOW + 22)}, "Unknown/Retrying", id="the date comes a second later"),
    ],
)
def test_a_retry_is_announced_only_where_it_has_a_second(deadlines: dict[str, Any], state: str) -> None:
    stage = failed(**deadlines)
    assert stage.now == NOW + 11
    assert stage.state == state


def test_in_the_pause_the_end_of_the_last_attempt_is_told_unless_something_else_had_stalled_it() -> None:
    stage = failed().torn_down()
    stage.decide(1)
    assert stage.condition(Condition.SUCCEEDED).message.startswith("Attempt 1 ended (")
    stage.class_error = "no such class"
    stage.decide(1)
    assert stage.condition(Condition.SUCCEEDED).reason == Reason.CLASS_NOT_FOUND
    stage.class_error = ""
    stage.decide(1)
    assert stage.now < NOW + 21
    assert stage.condition(Condition.SUCCEEDED).message == "The next attempt follows."


def test_who_asks_in_the_second_of_the_end_is_heard() -> None:
    stage = failed().torn_down()
    assert stage.status.attempt == 1
    stage.annotations = {RETRY_NOW: stage.attempt.ended_at or ""}
    assert stage.now < NOW + 21
    assert only(stage.decide(), model.CreateRayJob)


@pytest.mark.parametrize(
    ("world", "again"),
    [
        pytest.param({"sweep_class": klass(limits={"trials": 1})}, True, id="by its class, which may be changed"),
        pytest.param({"class_error": "no such class"}, True, id="for want of its class, which may be made"),
        pytest.param({"spec": {}}, False, id="by its own spec, whose change is an event"),
        pytest.param({"spec": {}, "class_error": "no such class"}, True, id="by both"),
    ],
)
def test_who_is_refused_is_looked_at_again_where_no_event_would_tell(world: dict[str, Any], again: bool) -> None:
    stage = Stage(**world)
    plan = stage.decide()
    assert stage.condition(Condition.ADMITTED).status == "False"
    assert plan.wake_at == (stage.now + CLASS_RETRY_SECONDS if again else None)


def test_of_several_refusals_the_first_gives_the_reason_and_all_are_told() -> None:
    twice = {"parameters": [{"name": "width", "categorical": {"values": [64, 64]}}]}
    stage = Stage(spec=spec(search=twice), sweep_class=klass(limits={"trials": 1}))
    stage.decide()
    found = stage.condition(Condition.ADMITTED)
    assert found.reason == Reason.INVALID_SPEC
    assert "values[1]" in found.message
    assert "trials.count" in found.message


@pytest.mark.parametrize("whose", [{"deleting": True}, {"sweep_uid": "somebody-else"}])
def test_a_ray_job_that_goes_or_is_another_s_is_not_deleted_after_its_time(whose: dict[str, Any]) -> None:
    stage = finished().torn_down()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, **whose)
    assert not only(stage.decide(86400), model.DeleteRayJob)


def test_pods_that_nobody_saw_end_count_until_their_lease_is_over() -> None:
    stage = Stage().launched()
    stage.pods = (head(started_at=NOW, cpus=3),)
    stage.decide(60)
    stage.job_is("Complete", "SUCCEEDED")
    assert isinstance(stage.job, RayJobView)
    stage.pods = ()
    stage.decide(1000)
    assert stage.job.ended_at == NOW + 60
    assert stage.status.usage.cpu_seconds == 3 * (60 + stage.job.ttl_seconds)
