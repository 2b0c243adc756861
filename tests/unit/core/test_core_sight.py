"""What the objects of an attempt show: whose RayJob it is, whether a driver ever ran, what counts as a lost head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import NOW, Stage, head, only, spec
from trainsweep.api.status import AttemptStatus, TrainSweepStatus
from trainsweep.core import model
from trainsweep.core.draft import Draft
from trainsweep.core.model import ClusterView, PodView, RayJobView, Unreadable
from trainsweep.core.sight import was_alive
from trainsweep.core.times import to_text


def test_a_ray_job_that_is_known_by_its_uid_stays_ours_whatever_its_annotation_says() -> None:
    stage = Stage().running()
    stage.decide(60)
    assert isinstance(stage.job, RayJobView)
    assert stage.attempt.ray_job_uid == stage.job.uid
    stage.job = replace(stage.job, digest="edited by a person")
    stage.spec = spec(deadlines={"startupSeconds": 2000})
    stage.decide(5)
    assert stage.state == "Unknown/Running"


@pytest.mark.parametrize(
    ("attempt", "progress", "alive"),
    [
        pytest.param({"ready_at": to_text(NOW)}, None, True, id="its head was ready"),
        pytest.param({"first_report_at": to_text(NOW)}, None, True, id="a trial reported"),
        pytest.param({"ray_job_uid": "job-1"}, None, False, id="only its RayJob was seen, and the store knows nothing"),
        pytest.param({"ray_job_uid": "job-1"}, Unreadable("503"), True, id="its RayJob was seen, the store is away"),
        pytest.param({}, Unreadable("503"), False, id="no RayJob was seen"),
    ],
)
def test_whether_a_driver_may_have_run(attempt: dict[str, str], progress: Unreadable | None, alive: bool) -> None:
    stage = Stage(progress=progress)
    stage.status = TrainSweepStatus(attempt=1, attempts=[AttemptStatus(number=1, ray_job="digits-a1", **attempt)])
    assert was_alive(Draft(stage.observed(), stage.now)) is alive


@pytest.mark.parametrize(
    ("cluster", "pods", "lost"),
    [
        pytest.param({"head_reason": "HeadPodNotFound"}, (), True, id="no head pod"),
        pytest.param({"head_reason": "HeadPodNotFound"}, (head(),), False, id="a new head pod is there"),
        pytest.param({"head_reason": "NotReady"}, (head(deleting=True),), False, id="the head pod is going"),
        pytest.param({}, (head(name="w", head=False, phase="Failed"),), False, id="a worker failed"),
        pytest.param({}, (head(phase="Failed"),), True, id="the head pod failed"),
    ],
)
def test_when_a_head_that_is_not_ready_is_lost(cluster: dict[str, str], pods: tuple[PodView, ...], lost: bool) -> None:
    stage = Stage().running()
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster, stage.pods = replace(stage.cluster, head_ready=False, **cluster), pods
    stage.decide(5)
    assert (stage.attempt.ended_at is not None) is lost


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"message": "stopped by hand"}, "stopped by hand"),
        ({}, "The Ray job was stopped from outside."),
    ],
)
def test_a_job_that_was_stopped_tells_who_did_it_or_that_nobody_said(said: dict[str, Any], message: str) -> None:
    stage = Stage().running().job_is("Complete", "STOPPED", **said)
    stage.decide(5)
    assert (stage.attempt.reason, stage.attempt.message) == ("JobStopped", message)


def test_a_ray_job_made_from_another_spec_before_ours_was_posted_is_nobody_s_to_settle() -> None:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job, stage.deleted_at = replace(stage.job, digest="of another rendering"), stage.now
    plan = stage.decide(1)
    assert stage.attempt.settled_at is not None
    assert not only(plan, model.Settle)
