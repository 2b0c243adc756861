"""From what a pass sees to `status.pending`: since when, how long a text, and which troubles end the attempt."""

from __future__ import annotations

import pytest

from tests.unit.core.core_builders import Stage, head, klass, pod_body, spec
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import PendingStatus
from trainsweep.core.pending.demand import demand_of
from trainsweep.core.pending.node_supply import promised_claims
from trainsweep.core.pending.situation import Situation
from trainsweep.core.times import to_text


def pending(stage: Stage) -> PendingStatus:
    assert stage.status.pending is not None
    return stage.status.pending


def unplaced(stage: Stage, lack: str, **more: str) -> None:
    """A worker waits for a node that has enough of something; more: kinds that cannot be read, and why."""
    body = pod_body("w", unscheduled=f"0/3 nodes are available: 3 {lack}.")
    stage.situation = Situation(stage.now, pods=(body,), unread=more)


def test_another_reason_of_the_same_layer_waits_anew() -> None:
    stage = Stage().launched()
    unplaced(stage, "Insufficient cpu")
    stage.decide(40)
    unplaced(stage, "Too many pods")
    stage.decide(100)
    assert (pending(stage).reason, pending(stage).since) == ("TooManyPods", to_text(stage.now))


def test_another_refusal_waits_anew() -> None:
    stage = Stage(class_error="TrainSweepClass a10g does not exist")
    stage.decide()
    stage.class_error, stage.sweep_class = "", klass(limits={"trials": 1})
    stage.decide(100)
    assert (pending(stage).reason, pending(stage).since) == ("LimitExceeded", to_text(stage.now))


def test_a_long_account_is_cut_to_what_the_field_holds() -> None:
    stage = Stage().launched()
    unplaced(stage, "Insufficient cpu", Event="no right to list it " * 60)
    stage.decide(40)
    assert len(pending(stage).message) == 1024
    assert "NodeSupply is not readable (Event: no right to list it" in pending(stage).message


@pytest.mark.parametrize(
    ("layer", "reason", "words"),
    [
        ("Image", "ErrImagePull", "container ray-head, image registry.example/train:1: i/o timeout"),
        ("Container", "CrashLoopBackOff", "container ray-head ended with code 127: ray: not found"),
    ],
)
def test_only_an_image_that_its_registry_does_not_have_ends_the_attempt(layer: str, reason: str, words: str) -> None:
    stage = Stage(spec=spec(deadlines={"startupSeconds": 7200})).launched()
    stage.pods = (head(phase="Pending", problem_layer=layer, problem_reason=reason, problem_message=words),)
    stage.decide(900)
    assert stage.attempt.ended_at is None


def test_a_quantity_that_is_none_leaves_the_demand_unknown() -> None:
    odd = {"workers": {"count": 1, "resources": {"cpu": "two", "memory": "1Gi"}}}
    assert demand_of(TrainSweepSpec.model_validate(spec())) is not None
    assert demand_of(TrainSweepSpec.model_validate(spec(training=odd))) is None


def test_node_claims_of_the_first_three_pods_are_asked_for() -> None:
    names = ("w1", "w2", "w3", "w4")
    events = tuple(
        {
            "reason": "Nominated",
            "involvedObject": {"uid": f"uid-{name}"},
            "message": f"Pod should schedule on: nodeclaim/gpu-{name}",
        }
        for name in names
    )
    pods = tuple(pod_body(name, unscheduled="0/3 nodes are available: 3 Insufficient cpu.") for name in names)
    assert promised_claims(Situation(0.0, pods=pods, events=events)) == ["gpu-w1", "gpu-w2", "gpu-w3"]
