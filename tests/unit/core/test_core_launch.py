"""Launching: write ahead, POST again what was never seen, adopt what is ours, refuse what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import BASE, UID, Stage, events, head, kinds, klass, only, spec
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.resolve import merge
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.core import model
from trainsweep.core.draft import Draft
from trainsweep.core.launch import driver_limits
from trainsweep.core.model import FINALIZER, RayJobView, Unreadable


def test_first_pass_writes_ahead_in_order() -> None:
    stage = Stage()
    plan = stage.decide()
    assert kinds(plan) == ["AddFinalizer", "WriteStatus", "EnsureHold", "CreateRayJob"]
    assert events(plan) == ["Starting"]
    assert isinstance(plan.actions[-1], model.EmitEvent)
    assert stage.status.attempt == 1
    assert stage.attempt.ray_job.startswith("digits-")
    assert stage.attempt.ray_job.endswith("-a1")
    assert stage.status.run.startswith("v1-")
    assert stage.state == "Unknown/Starting"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "Unknown"


def test_what_is_posted_is_what_was_recorded() -> None:
    stage = Stage()
    plan = stage.decide()
    body = only(plan, model.CreateRayJob)[0].body
    assert body["metadata"]["name"] == stage.attempt.ray_job
    assert body["metadata"]["annotations"]["trainsweep.io/digest"] == stage.attempt.spec_digest
    assert body["spec"]["ttlSecondsAfterFinished"] == 200


def test_finalizer_that_is_there_is_not_written_again() -> None:
    stage = Stage(finalizers=(FINALIZER,))
    assert "AddFinalizer" not in kinds(stage.decide())


def test_recorded_but_never_seen_is_posted_again_with_the_same_name_and_digest() -> None:
    stage = Stage()
    first = only(stage.decide(), model.CreateRayJob)[0]
    plan = stage.decide(7)
    assert kinds(plan) == ["EnsureHold", "CreateRayJob"]
    again = only(plan, model.CreateRayJob)[0]
    assert again.body["metadata"] == first.body["metadata"]
    assert stage.status.attempt == 1


def test_lost_finalizer_of_a_live_attempt_comes_back() -> None:
    stage = Stage().running()
    stage.finalizers = ()
    assert kinds(stage.decide(5))[0] == "AddFinalizer"


def test_pods_without_a_ray_job_prove_that_it_was_there() -> None:
    stage = Stage()
    stage.decide()
    stage.pods = (head(),)
    plan = stage.decide(5)
    assert not only(plan, model.CreateRayJob)
    assert stage.attempt.reason == "RayJobDeleted"


def test_nothing_is_posted_again_where_a_driver_left_its_marker_and_no_heartbeat() -> None:
    stage = Stage()
    stage.decide()
    stage.started = True
    assert "CreateRayJob" not in kinds(stage.decide(5))
    assert stage.attempt.reason == "RayJobDeleted"


def test_unreadable_ray_job_is_neither_posted_nor_given_up() -> None:
    stage = Stage().running()
    stage.job = Unreadable("503")
    plan = stage.decide(5)
    assert kinds(plan) == []
    assert stage.attempt.ended_at is None
    assert plan.wake_at is not None


def test_foreign_ray_job_is_a_name_conflict_and_is_not_touched() -> None:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, sweep_uid="somebody-else")
    plan = stage.decide(5)
    assert kinds(plan) == ["WriteStatus"]
    assert stage.state == "Unknown/NameConflict"
    assert stage.has(Condition.STALLED)
    assert not stage.has(Condition.RECONCILING)
    assert stage.attempt.ray_job in stage.condition(Condition.ADMITTED).message


def test_another_rendering_under_our_name_is_a_name_conflict() -> None:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, digest="f" * 64)
    stage.decide(5)
    assert stage.state == "Unknown/NameConflict"


def test_rendering_of_an_edited_spec_is_adopted_when_the_first_post_was_lost() -> None:
    stage = Stage()
    stage.decide()
    recorded = stage.attempt.spec_digest
    stage.spec = merge(stage.spec, {"training": {"image": "registry.example/train:2"}})
    posted = only(stage.decide(5), model.CreateRayJob)[0].body
    digest = posted["metadata"]["annotations"]["trainsweep.io/digest"]
    assert digest != recorded
    assert stage.attempt.spec_digest == recorded  # the first POST may still show
    for seen in (recorded, digest):
        other = Stage(stage.spec, stage.now, stage.status, stage.finalizers)
        other.job = RayJobView(stage.attempt.ray_job, "job-1", UID, seen, "Initializing", has_hold_owner=True)
        other.hold = model.HoldView("h", "u")
        other.decide(5)
        assert other.state == "Unknown/Starting", seen
        assert other.attempt.spec_digest == seen


def test_once_its_uid_is_recorded_an_edit_of_the_spec_makes_no_stranger() -> None:
    stage = Stage().running()
    assert stage.attempt.ray_job_uid == "job-1"
    stage.spec = merge(stage.spec, {"training": {"image": "registry.example/train:2"}})
    stage.decide(5)
    assert stage.state == "Unknown/Running"


def test_ray_job_made_again_by_someone_else_ends_the_attempt() -> None:
    stage = Stage().running()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, uid="job-1-again")
    stage.decide(5)
    assert stage.attempt.reason == "RayJobDeleted"


def test_missing_hold_and_missing_reference_are_repaired() -> None:
    stage = Stage().running()
    assert isinstance(stage.job, RayJobView)
    stage.hold = None
    assert "RepairHoldReference" in kinds(stage.decide(5))
    stage.hold, stage.job = model.HoldView("h", "u"), replace(stage.job, has_hold_owner=False)
    assert "RepairHoldReference" in kinds(stage.decide(5))
    stage.hold = Unreadable("503")
    assert "RepairHoldReference" not in kinds(stage.decide(5))


def test_refusal_of_the_api_server_is_told_and_ends_at_the_startup_deadline() -> None:
    stage = Stage()
    stage.decide()
    stage.refusal = "RayJob x was refused: exceeded quota: count/rayjobs.ray.io"
    stage.decide(5)
    assert stage.status.pending is None or "quota" in stage.status.pending.message
    stage.decide(40)
    assert stage.status.pending is not None
    assert "quota" in stage.status.pending.message
    stage.decide(1000)
    assert stage.attempt.ended_at is not None
    assert "quota" in stage.attempt.message


@pytest.mark.parametrize(
    ("stage", "reason", "words"),
    [
        pytest.param(Stage(class_error="TrainSweepClass a10g does not exist"), "ClassNotFound", "a10g", id="class"),
        pytest.param(Stage(spec={"objective": {}}), "InvalidSpec", "spec.", id="schema"),
        pytest.param(
            Stage(spec=spec(training={"env": [{"name": "RAY_ADDRESS", "value": "x"}]})),
            "InvalidSpec",
            "spec.training.env[0].name",
            id="reserved",
        ),
        pytest.param(Stage(sweep_class=None), "StorageNotAllowed", "spec.storage.uri", id="no-class"),
        pytest.param(Stage(sweep_class=klass(limits={"trials": 2})), "LimitExceeded", "spec.trials.count", id="limit"),
    ],
)
def test_what_is_not_admitted_waits_for_a_person_with_the_field(stage: Stage, reason: str, words: str) -> None:
    plan = stage.decide()
    assert kinds(plan) == ["WriteStatus"]
    assert stage.condition(Condition.ADMITTED).status == "False"
    assert stage.condition(Condition.ADMITTED).reason == reason
    assert words in stage.condition(Condition.ADMITTED).message
    assert stage.has(Condition.STALLED)
    assert stage.condition(Condition.FINISHED).status == "False"
    assert kinds(stage.decide(60)) == []


def test_admission_that_comes_later_launches() -> None:
    stage = Stage(class_error="TrainSweepClass a10g does not exist")
    stage.decide()
    stage.class_error = ""
    assert "CreateRayJob" in kinds(stage.decide(60))
    assert not stage.has(Condition.STALLED)
    assert stage.condition(Condition.ADMITTED).status == "True"


def test_spec_is_never_changed() -> None:
    stage = Stage()
    before: dict[str, Any] = merge({}, stage.spec)
    stage.running().waiting().decide()
    assert stage.spec == before == BASE


def test_dashboard_without_a_token_is_said() -> None:
    stage = Stage(spec=spec(cluster={"rayVersion": "2.51.0"}))
    stage.decide()
    assert stage.condition(Condition.DASHBOARD_PROTECTED).reason == Reason.DASHBOARD_UNPROTECTED


def test_nothing_is_posted_again_before_a_heartbeat_was_looked_for() -> None:
    stage = Stage()
    stage.decide()
    stage.progress = Unreadable("the store has not answered yet")
    assert "CreateRayJob" not in kinds(stage.decide(40))
    words = "Whether a driver of attempt 1 has run cannot be read from the store: the store has not answered yet"
    assert stage.condition(Condition.SUCCEEDED).message == words
    stage.reporting()
    assert "CreateRayJob" not in kinds(stage.decide(5))
    assert stage.attempt.reason == "RayJobDeleted"


@pytest.mark.parametrize(
    ("denied", "refusal", "posted"),
    [
        pytest.param(True, "exceeded quota", True, id="the API server refused it"),
        pytest.param(True, "", False, id="somebody may have deleted one that ran"),
        pytest.param(False, "exceeded quota", False, id="the store may answer soon"),
    ],
)
def test_where_the_store_refuses_us_only_what_was_refused_is_posted_again(
    denied: bool, refusal: str, posted: bool
) -> None:
    stage = Stage()
    stage.decide()
    stage.progress, stage.refusal = Unreadable("no answer", denied=denied), refusal
    assert ("CreateRayJob" in kinds(stage.decide(5))) is posted
    stage.decide(1000)
    assert stage.attempt.reason == "StartupDeadlineExceeded"


def test_what_is_posted_again_keeps_the_times_of_the_first_post() -> None:
    stage = Stage(spec=spec(deadlines={"startupSeconds": 50, "runSeconds": 100}))
    first = only(stage.decide(), model.CreateRayJob)[0]
    assert only(stage.decide(20), model.CreateRayJob)[0].body == first.body


def test_what_a_class_adds_to_pods_is_launched_with_it() -> None:
    stage = Stage(sweep_class=klass(storage={"credentialsSecret": "of-the-platform"}))
    body = only(stage.decide(), model.CreateRayJob)[0].body
    pod = body["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": "of-the-platform"}}]


def test_a_recorded_attempt_that_no_longer_fits_its_class_is_refused_in_words() -> None:
    resources = {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 2}
    stage = Stage(spec=spec(training={"workers": {"count": 1, "resources": resources}}))
    stage.decide()
    stage.sweep_class = klass(limits={"gpus": 1})
    assert not only(stage.decide(20), model.CreateRayJob)
    assert stage.condition(Condition.ADMITTED).reason == Reason.KUBERAY_REFUSED
    assert "limits.gpus" in stage.condition(Condition.ADMITTED).message


def test_an_unprotected_dashboard_is_no_condition_that_holds() -> None:
    stage = Stage(spec=spec(cluster={"rayVersion": "2.51.0"}))
    stage.decide()
    assert stage.condition(Condition.DASHBOARD_PROTECTED).status == "False"


def test_a_driver_is_told_what_earlier_attempts_left_of_the_budget_and_never_less_than_nothing() -> None:
    stage = Stage()
    draft = Draft(stage.observed(), stage.now)
    resolved = TrainSweepSpec.model_validate(spec(budget={"cpuHours": 1, "gpuHours": 2}))
    some = driver_limits(draft, resolved, stage.now, gpu_before=7000, cpu_before=3000)
    assert (some.gpu_seconds, some.cpu_seconds) == (200, 600)
    none = driver_limits(draft, resolved, stage.now, gpu_before=8000, cpu_before=4000)
    assert (none.gpu_seconds, none.cpu_seconds) == (0, 0)
