"""What the conditions say of a live attempt, from the first look at its RayJob to the trials that run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.core_builders import DIGEST, NOW, Stage, head, kinds, missing, only, progress, spec
from trainsweep.api.conditions import Condition
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import AttemptStatus
from trainsweep.contract.documents import Control, Phase, StopRequest
from trainsweep.core import deadlines, model
from trainsweep.core.model import ClusterView, Proof, RayJobView, Unreadable
from trainsweep.core.times import to_text


def _said(stage: Stage, kind: Condition) -> tuple[str, str, str]:
    found = stage.condition(kind)
    return found.status, found.reason, found.message


def test_a_suspended_ray_job_waits_for_kueue() -> None:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, suspended=True, deployment_status="Suspended")
    stage.decide(5)
    words = "The RayJob is suspended: Kueue has not admitted it yet."
    assert _said(stage, Condition.CLUSTER_READY) == ("False", "Queued", words)
    assert stage.state == "Unknown/Starting"
    assert stage.attempt.ended_at is None


def test_an_admitted_ray_job_waits_for_its_head() -> None:
    stage = Stage().launched()
    stage.decide(5)
    assert _said(stage, Condition.CLUSTER_READY)[:2] == ("False", "ClusterStarting")
    assert "is being started" in _said(stage, Condition.CLUSTER_READY)[2]
    assert stage.attempt.ready_at is None


def test_the_head_makes_the_cluster_ready_and_the_receipt_the_trials_finished() -> None:
    stage = Stage().running()
    assert _said(stage, Condition.CLUSTER_READY)[:2] == ("True", "ClusterReady")
    assert _said(stage, Condition.TRIALS_FINISHED)[:2] == ("False", "TrialsRunning")
    assert stage.state == "Unknown/Running"
    stage.waiting().decide(60)  # not worth a write of its own
    assert _said(stage, Condition.TRIALS_FINISHED)[:2] == ("True", "TrialsFinished")
    assert stage.state == "Unknown/Verifying"


def test_a_pod_that_is_no_head_makes_no_cluster_ready() -> None:
    stage = Stage().running()
    other = Stage().launched()
    other.cluster, other.pods = stage.cluster, (head(head=False),)
    other.decide(5)
    assert _said(other, Condition.CLUSTER_READY)[0] == "False"


def test_a_long_message_is_cut_to_what_the_field_may_hold() -> None:
    stage = Stage().running().job_is("Failed", "FAILED", message="x" * 5000)
    stage.decide(5)
    assert stage.attempt.message == "x" * 2048


def test_an_unreadable_ray_job_says_nothing() -> None:
    stage = Stage().running()
    before = stage.status
    stage.job = Unreadable("503")
    assert kinds(stage.decide(5)) == []
    assert stage.status == before


STALL = TrainSweepSpec.model_validate(spec(deadlines={"startupSeconds": 1000, "stallSeconds": 60}))


@pytest.mark.parametrize(
    ("phase", "step", "due"),
    [
        pytest.param(Phase.RUNNING, NOW - 30, NOW + 30, id="a report"),
        pytest.param(Phase.RUNNING, None, NOW + 60, id="a heartbeat while nothing has reported"),
        pytest.param(Phase.WAITING_FOR_VERDICT, NOW - 30, NOW + 60, id="only a heartbeat after the training"),
        pytest.param(Phase.ENDED, NOW - 30, None, id="nothing once it has ended"),
    ],
)
def test_the_next_sign_of_life(phase: Phase, step: float | None, due: float | None) -> None:
    attempt = AttemptStatus(number=1, ray_job="x", started_at=to_text(NOW - 100), first_report_at=to_text(NOW - 50))
    assert deadlines.stall_at(STALL, attempt, progress("1-0d2f6f1f", phase, NOW, last_step_at=step)) == due


def test_no_sign_of_life_is_due_before_the_first_report() -> None:
    attempt = AttemptStatus(number=1, ray_job="x", started_at=to_text(NOW))
    assert deadlines.stall_at(STALL, attempt, progress("1-0d2f6f1f", Phase.RUNNING, NOW)) is None


def test_the_hold_is_made_again_while_the_attempt_lives() -> None:
    stage = Stage().running()
    stage.hold = None
    assert only(stage.decide(5), model.RepairHoldReference, most=1)


@pytest.mark.parametrize(("pods", "placed"), [((True,), False), ((False,), False), ((True, False), True)])
def test_the_wait_for_nodes_is_over_when_head_and_a_worker_run(pods: tuple[bool, ...], placed: bool) -> None:
    stage = Stage().running()
    stage.pods = tuple(head(name=f"p{n}", head=is_head) for n, is_head in enumerate(pods))
    stage.decide(60)
    assert (stage.attempt.placed_at is not None) == placed


@pytest.mark.parametrize(
    ("deployment", "deleting", "moves"),
    [("Running", False, True), ("Running", True, False), ("Suspended", False, False), ("", False, False)],
)
def test_the_backstop_moves_only_where_its_clock_runs(deployment: str, deleting: bool, moves: bool) -> None:
    stage = Stage(spec=spec(deadlines={"startupSeconds": 50, "runSeconds": 100})).launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=10, deployment_status=deployment, deleting=deleting)
    assert bool(only(stage.decide(5), model.PatchRayJob)) == moves


def test_conditions_and_lists_are_cut_to_what_their_fields_may_hold() -> None:
    stage = Stage().running().waiting()
    stage.looked(Proof.MISSING, missing=tuple(missing() for _ in range(20)), advice="x" * 2000).decide(5)
    assert len(stage.status.checkpoints.missing) == 16
    assert len(stage.condition(Condition.CHECKPOINTS_VERIFIED).message) == 1024


@pytest.mark.parametrize(
    ("phase", "digest"),
    [
        pytest.param(Phase.WAITING_FOR_VERDICT, None, id="no receipt is named"),
        pytest.param(Phase.EXPORTING, DIGEST, id="the verdict was given before"),
    ],
)
def test_no_receipt_is_looked_at_that_nobody_waits_for(phase: Phase, digest: str | None) -> None:
    stage = Stage().running().reporting(phase, receipt_digest=digest)
    assert not only(stage.decide(5), model.Settle)


@pytest.mark.parametrize(
    ("own", "told", "ends"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["it was told to stop", "it has other news", "another attempt was told to stop"],
)
def test_a_cluster_that_never_got_its_job_ends_once_its_head_was_told(own: bool, told: bool, ends: bool) -> None:
    stage = Stage(spec=spec(deadlines={"startupSeconds": 50})).launched()
    stage.cluster, stage.pods = ClusterView(name="c", head_ready=True), (head(),)
    stage.decide(5)
    stop = StopRequest(reason="StartupDeadlineExceeded") if told else None
    control = Control(attempt_id=stage.own if own else "9-00000000", stop=stop)
    stage.pods = (head(control=control),)
    stage.decide(60)
    assert stage.attempt.stop_reason == "StartupDeadlineExceeded"
    assert (stage.attempt.ended_at is not None) is ends
