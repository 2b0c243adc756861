"""When the status is written, and when it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import Stage, head, kinds, only, pod_body, progress
from tests.unit.core.test_core_release import finished
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Best, Phase
from trainsweep.core.model import ClusterView, EmitEvent
from trainsweep.core.pending.situation import Situation


def waiting_for_class() -> Stage:
    return Stage(class_error="TrainSweepClass a10g does not exist")


STAGES = {
    "not admitted": waiting_for_class,
    "launched": lambda: Stage().launched(),
    "running": lambda: Stage().running(),
    "reporting": lambda: Stage().running().reporting(),
    "waiting": lambda: Stage().running().waiting(),
    "verified": lambda: Stage().running().waiting().looked(),
    "finished": lambda: finished(),
    "gone": lambda: finished().torn_down(),
}


@pytest.mark.parametrize("name", STAGES)
def test_nothing_is_written_when_nothing_has_changed(name: str) -> None:
    stage = STAGES[name]()
    stage.decide(1)
    stage.decide(100)  # what is soft is written by now
    for _ in range(5):
        assert "WriteStatus" not in kinds(stage.decide(60))


def test_measured_values_are_written_every_thirty_seconds() -> None:
    stage = Stage().running().reporting()
    stage.decide(60)
    stage.reporting(Phase.RUNNING)
    plan = stage.decide(5)
    assert kinds(plan) == []
    assert plan.wake_at is not None
    assert plan.wake_at <= stage.now + 25
    stage.reporting(Phase.RUNNING)
    assert kinds(stage.decide(26)) == ["WriteStatus"]


def test_what_changes_in_meaning_is_written_at_once() -> None:
    stage = Stage().running().reporting()
    stage.decide(60)
    stage.head_is_lost()
    assert "WriteStatus" in kinds(stage.decide(1))


def test_restarted_operator_writes_what_is_soft_at_once() -> None:
    stage = Stage().running().reporting()
    stage.decide(60)
    stage.reporting(Phase.RUNNING).written_at = None
    stage.now += 5
    stage.reporting(Phase.RUNNING)
    assert kinds(stage.decide(1)) == ["WriteStatus"]


def test_transition_time_moves_only_with_the_status() -> None:
    stage = Stage().running().waiting()
    stage.decide(60)
    before = stage.condition(Condition.TRIALS_FINISHED)
    stage.written_at = None
    stage.waiting().decide(60)
    assert stage.condition(Condition.TRIALS_FINISHED) == before


def test_progress_is_copied_as_text_and_bounded() -> None:
    stage = Stage().running().reporting()
    best = Best(trial="t1", value=1 / 3, step=7, parameters={"lr": 1e-5, "on": True, "n": None}, checkpoint="train/x")
    stage.progress = progress(stage.own, Phase.RUNNING, stage.now, best=best, eta_seconds=12.2, message="ok")
    stage.decide(60)
    assert stage.status.trials.summary == "1/4"
    assert stage.status.progress.eta_seconds == 13
    assert stage.status.best is not None
    assert stage.status.best.value == "0.333333"
    assert stage.status.best.parameters == {"lr": "1e-05", "on": "true", "n": "None"}
    assert stage.status.best.checkpoint_uri == f"{stage.status.run_uri}/train/x"


@pytest.mark.parametrize("eta", [-1.0, 1e300])
def test_hostile_numbers_are_left_out(eta: float) -> None:
    stage = Stage().running().reporting()
    stage.progress = progress(stage.own, Phase.RUNNING, stage.now, eta_seconds=eta, heartbeat_at=-1e30)
    stage.decide(60)
    assert stage.status.progress.eta_seconds is None
    assert stage.status.progress.heartbeat_at is None


def waiting_for(reason: str, message: str = "") -> dict[str, Any]:
    return {"containerStatuses": [{"name": "ray", "state": {"waiting": {"reason": reason, "message": message}}}]}


def test_pending_names_the_lowest_layer_and_keeps_its_since() -> None:
    stage = Stage().launched()
    stage.situation = Situation(
        stage.now,
        pods=(
            pod_body("h", head=True, **waiting_for("ErrImagePull", "not found")),
            pod_body("w", unscheduled="0/3 nodes are available: 3 Insufficient cpu."),
        ),
    )
    stage.decide(40)
    assert stage.status.pending is not None
    assert (stage.status.pending.layer, stage.status.pending.reason) == ("Placement", "InsufficientResources")
    assert "worker w (1 of 2 pods): 0 of 3 nodes fit: 3 without enough cpu" in stage.status.pending.message
    since = stage.status.pending.since
    stage.decide(40)
    assert stage.status.pending.since == since
    stage.situation = Situation(
        stage.now,
        ray_cluster={"status": {"conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": "webhook says no"}]}},
    )  # fmt: skip
    stage.decide(40)
    assert (stage.status.pending.layer, stage.status.pending.reason) == ("Quota", "PodRefused")
    stage.situation, stage.cluster, stage.pods = None, None, (head(),)
    stage.decide(40)
    assert stage.status.pending is None


def test_an_event_tells_of_a_wait_once_and_only_where_someone_must_act() -> None:
    stage = Stage().launched()
    stage.situation = Situation(stage.now, pods=(pod_body("h", head=True, **waiting_for("InvalidImageName")),))
    plan = stage.decide(40)
    assert [e.message.split(":")[:2] for e in only(plan, EmitEvent, most=3) if e.reason == "Waiting"] == [
        ["Image", " ImageNameInvalid"]
    ]
    assert not [e for e in only(stage.decide(40), EmitEvent, most=3) if e.reason == "Waiting"]


def test_what_cannot_be_read_is_said_beside_what_is_known() -> None:
    stage = Stage().launched()
    stage.situation = Situation(
        stage.now,
        pods=(pod_body("h", head=True, unscheduled="0/3 nodes are available: 3 Insufficient cpu."),),
        unread={"Event": "no right to list events"},
    )
    stage.decide(40)
    assert stage.status.pending is not None
    assert stage.status.pending.message.endswith("NodeSupply is not readable (Event: no right to list events)")


def test_same_inputs_give_the_same_plan() -> None:
    one, other = Stage().running().waiting(), Stage().running().waiting()
    assert one.decide(5) == other.decide(5)


def test_history_keeps_the_newest_twenty_attempts() -> None:
    stage = Stage().running()
    first = stage.attempt
    many = [first.model_copy(update={"number": n, "gone_at": first.started_at}) for n in range(1, 21)]
    stage.status = stage.status.model_copy(update={"attempts": many, "attempt": 20})
    stage.job, stage.pods, stage.hold = None, (), None
    stage.decide(5)
    assert stage.status.attempt == 21
    assert [a.number for a in stage.status.attempts] == list(range(2, 22))


def test_head_that_flaps_does_not_write() -> None:
    stage = Stage().running()
    stage.decide(60)
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, head_ready=False, head_reason="ContainersNotReady")
    assert "WriteStatus" not in kinds(stage.decide(60))
