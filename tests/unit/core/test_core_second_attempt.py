"""What is asked of the newest attempt is not answered by the first: a second one begins with no mark of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import NOW, Stage, head, kinds, only, spec
from trainsweep.api.conditions import Condition
from trainsweep.core import model
from trainsweep.core.model import ClusterView, Proof, RayJobView
from trainsweep.core.release import POLL_SECONDS


def after_a_lost_head(**changes: Any) -> Stage:
    """The first attempt was ready, reported, and lost its head; the second may start."""
    return Stage(spec=spec(**changes)).without_its_first()


def resumed(**changes: Any) -> Stage:
    """The first attempt was suspended, and stopped for it; the second runs."""
    stage = Stage(spec=spec(**changes)).running()
    stage.spec = spec(**changes, suspend=True)
    stage.decide(5)
    assert stage.attempt.stop_reason == "Suspended"
    stage.ended("Complete", "SUCCEEDED", outcome=model.Outcome.STOPPED)
    stage.settled()
    stage.torn_down()
    stage.spec = spec(**changes)
    stage.generation += 1
    stage.now += 40
    return stage.running()


def test_a_resumed_sweep_is_running_not_stopping() -> None:
    stage = resumed()
    assert (stage.attempt.number, stage.attempt.stop_reason) == (2, "")
    assert stage.state == "Unknown/Running"


def test_a_resumed_sweep_is_still_stopped_by_its_deadlines() -> None:
    stage = resumed(deadlines={"startupSeconds": 50, "runSeconds": 100})
    stage.reporting().decide(20)
    assert stage.attempt.stop_reason == ""
    stage.reporting().decide(150)
    assert stage.attempt.stop_reason == "RunDeadlineExceeded"


def test_the_backstop_of_a_later_attempt_counts_from_its_own_start() -> None:
    stage = after_a_lost_head(deadlines={"startupSeconds": 100, "totalSeconds": 1000}).launched()
    started = stage.now - NOW
    assert isinstance(stage.job, RayJobView)
    body = {"deadlines": {"startupSeconds": 100, "totalSeconds": 5000}}
    stage.spec, stage.job = spec(**body), replace(stage.job, active_deadline_seconds=10, deployment_status="Running")
    (patch,) = only(stage.decide(25), model.PatchRayJob)
    # The total, less what was over at the start, and after it the grace, the verdict's time and the margin.
    assert patch.spec == {"activeDeadlineSeconds": 5000 - started + 10 + 100 + 300}


def test_one_whose_head_was_never_ready_owes_nothing_when_the_sweep_is_deleted() -> None:
    stage = after_a_lost_head().launched()
    stage.decide(60)
    assert stage.attempt.ray_job_uid == "job-2"
    stage.job, stage.deleted_at = None, stage.now
    plan = stage.decide(5)
    stage.decide(5)
    assert (stage.attempt.number, stage.attempt.reason) == (2, "RayJobDeleted")
    assert stage.attempt.settled_at is not None
    assert not only(plan, model.Settle)


def test_one_whose_ray_job_was_never_seen_is_posted_again() -> None:
    stage = after_a_lost_head()
    stage.decide()
    plan = stage.decide(20)
    assert (stage.attempt.number, stage.attempt.ended_at) == (2, None)
    assert kinds(plan) == ["EnsureHold", "CreateRayJob"]


def test_one_that_waits_suspended_is_ended_when_its_image_can_never_be_had() -> None:
    stage = after_a_lost_head().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, suspended=True)
    stage.pods = (never_starting(started_at=stage.now),)
    stage.decide(61)
    assert stage.attempt.ended_at is not None


def test_one_whose_head_is_not_made_yet_has_not_lost_it() -> None:
    stage = after_a_lost_head().launched()
    assert isinstance(stage.job, RayJobView)
    stage.cluster = ClusterView(name=stage.job.cluster, head_ready=False, head_reason="HeadPodNotFound")
    stage.decide(5)
    assert stage.attempt.ended_at is None


def test_a_pod_without_a_node_has_waited_since_its_own_attempt_began() -> None:
    stage = after_a_lost_head().launched()
    stage.pods = (never_starting(),)
    stage.decide(60)
    assert stage.attempt.ended_at is None
    stage.decide(1)
    assert stage.attempt.ended_at is not None


@pytest.mark.parametrize(
    ("proof", "at", "says"),
    [
        pytest.param(Proof.UNKNOWN, 600, "ReleasedAfterHold", id="nobody could look, to the second"),
        pytest.param(Proof.PERSISTED, 600, "Released", id="proven in the last second"),
        pytest.param(Proof.PERSISTED, 5, "Released", id="proven"),
    ],
)
def test_released_says_whether_the_hold_ran_out(proof: Proof, at: int, says: str) -> None:
    stage = after_a_lost_head().running()
    stage.ended("Failed", "FAILED").decide()
    ended = stage.now
    stage.looked(Proof.UNKNOWN).decide(1)
    stage.now = ended + at
    stage.looked(proof).decide()
    assert stage.attempt.settled_at is not None
    stage.torn_down()
    assert stage.condition(Condition.RELEASED).reason == says


def test_released_says_no_hold_where_nothing_was_owed() -> None:
    stage = Stage().launched()
    stage.decide(60)
    stage.job, stage.hold, stage.deleted_at = None, None, stage.now
    for _ in range(3):
        stage.decide(POLL_SECONDS)
    assert stage.attempt.gone_at is not None
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "Unknown"
    assert stage.condition(Condition.RELEASED).reason == "Released"


def never_starting(**changes: Any) -> model.PodView:
    """A head pod whose image's name is none."""
    broken = {"problem_layer": "Image", "problem_reason": "InvalidImageName", "problem_message": "bad reference"}
    return head(phase="Pending", ready=False, **broken, **changes)
