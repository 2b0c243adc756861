"""Stories of classes: missing, unreadable, with a line, with hours that are spent."""

from __future__ import annotations

from typing import Any

from tests.unit.core.core_builders import NOW, klass, spec
from tests.unit.core.story_parts import GPU, story, told
from tests.unit.core.told import Told
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.status import ConditionStatus
from trainsweep.core.model import (
    InLine,
)
from trainsweep.core.times import to_text


@story
def its_class_is_missing() -> Told:
    stage = told()
    stage.sweep_class, stage.class_error = None, "TrainSweepClass gpu does not exist"
    stage.decide()
    stage.sweep_class, stage.class_error = klass(), ""
    stage.title("it is there").decide(60)
    return stage


@story
def its_spec_becomes_unreadable_while_it_runs() -> Told:
    stage = told()
    stage.running().reporting().decide(5)
    stage.spec = {"trials": 3}
    stage.decide(5)
    stage.spec = spec()
    stage.decide(60)
    stage.job_is("Complete", "SUCCEEDED").spec = {"trials": 3}
    stage.decide(5)
    return stage


@story
def stands_in_line() -> Told:
    def other(name: str, ticket: int, gpus: int, **more: Any) -> InLine:
        fields: dict[str, Any] = {"waits": False, "holds": False, "undecided": False}
        return InLine(name, name.split("/", 1)[0], f"uid-{name}", ticket, gpus, **(fields | more))

    stage = told(training={"workers": {"count": 1, "resources": GPU}})
    stage.sweep_class = klass(limits={"gpus": 2})
    many = tuple(other(f"team-{i}/x", 10 + i, 1, waits=True) for i in range(5))
    stage.title("others hold and wait").line = (other("team-a/x", 3, 2, holds=True), *many)
    stage.decide()
    stage.decide(1)
    stage.title("exactly three are before it").line = many[:3]
    stage.decide(1)
    stage.title("one is undecided").line = (other("team-a/y", 4, 1, undecided=True),)
    stage.decide(15)
    stage.title("nobody is before it").line = ()
    stage.decide(1)
    return stage


@story
def the_namespace_has_spent_its_gpu_hours() -> Told:
    stage = told(training={"workers": {"count": 1, "resources": GPU}})
    stage.sweep_class = klass(limits={"gpuHours": 10, "gpus": 8})
    stage.line = (InLine("team/x", "team", "uid-x", 1, 1, False, True, False, gpu_seconds=36_000.0),)
    stage.decide()
    stage.decide(1)
    return stage


@story
def its_operator_has_failed_inside() -> Told:
    """Who was stalled by the operator's own fault stands in no line, and draws anew."""
    stage = told(training={"workers": {"count": 1, "resources": GPU}})
    stage.sweep_class = klass(limits={"gpus": 1})
    stage.line = (InLine("team-a/x", "team-a", "uid-x", 3, 1, False, True, False),)
    stage.decide()
    stage.line = (*stage.line, InLine("team-a/y", "team-a", "uid-y", 8, 1, True, False, False))
    held = [c for c in stage.status.conditions if c.type != "Reconciling"]
    ours = ConditionStatus(
        type=Condition.STALLED,
        status="True",
        observed_generation=1,
        last_transition_time=to_text(NOW),
        reason=Reason.INTERNAL_ERROR,
        message="KeyError",
    )
    stage.status = stage.status.model_copy(update={"conditions": [*held, ours]})
    stage.decide(60)
    return stage


@story
def its_class_is_deleted_while_it_starts() -> Told:
    stage = told()
    stage.decide()
    stage.sweep_class, stage.class_error = None, "TrainSweepClass default does not exist"
    stage.decide(5)
    stage.decide(5)
    return stage
