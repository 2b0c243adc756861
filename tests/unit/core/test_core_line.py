"""The line for a class's GPUs, as a model: many sweeps, passes in any order and half done, crashes between any two writes.

What must hold whatever the order: the ceiling, nobody overtaken, everybody served in the end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.unit.core.core_builders import NOW, Stage, klass, only, spec
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.resolve import resolve
from trainsweep.api.status import AttemptStatus, TrainSweepStatus, UsageStatus
from trainsweep.core.draft import Draft
from trainsweep.core.line import _ordinal, may_start
from trainsweep.core.model import EmitEvent, InLine, Unreadable
from trainsweep.core.times import to_text
from trainsweep.runtime.line import in_line


def gpu_spec(gpus: int = 1, **more: Any) -> dict[str, Any]:
    resources = {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}
    return spec(
        trials={"count": 4, "maxConcurrent": gpus}, training={"workers": {"count": 1, "resources": resources}}, **more
    )


def other(name: str, ticket: int = 0, gpus: int = 1, *, holds: bool = False, undecided: bool = False) -> InLine:
    waits = bool(ticket) and not holds
    return InLine(name, name.split("/")[0], f"uid-{name}", ticket, gpus, waits, holds, undecided)


def staged(line: tuple[InLine, ...] | Unreadable | None, gpus: int = 1, limit: int = 2, **limits: Any) -> Stage:
    stage = Stage(spec=gpu_spec(gpus), sweep_class=klass(limits={"gpus": limit, **limits}))
    stage.line = line
    return stage


def test_a_ticket_is_drawn_and_written_before_anything_starts() -> None:
    stage = staged((other("team-a/x", 3, holds=True), other("team-a/y", 7)))
    stage.decide()
    assert stage.status.line is not None
    assert (stage.status.line.ticket, stage.status.line.holds, stage.status.attempt) == (8, False, 0)


def test_the_waiting_say_their_place_and_who_holds_what() -> None:
    stage = staged((other("team-a/x", 1, 2, holds=True), other("team-b/y", 2)))
    stage.decide()
    stage.decide(1)
    assert stage.status.pending is not None
    assert (stage.status.pending.layer, stage.status.pending.reason) == ("ClassLimit", "InLine")
    assert stage.status.pending.message == (
        "2nd in line of class default: 2 of 2 GPUs in use by team-a/x, 1 asked for by team-b/y before it; it asks for 1"
    )
    assert stage.state == "Unknown/Pending"
    writes = stage.status
    stage.decide(60)
    assert stage.status == writes, "who only waits writes nothing"


def test_the_first_starts_when_its_gpus_are_given_back_and_then_holds_them() -> None:
    stage = staged((other("team-a/x", 1, 2, holds=True),))
    stage.decide()
    stage.decide(1)
    assert stage.status.attempt == 0
    stage.line = ()
    stage.decide(20)
    assert stage.status.attempt == 1
    assert stage.status.pending is None
    assert stage.status.line is not None
    assert stage.status.line.holds


def test_nobody_is_passed_over_by_a_smaller_one() -> None:
    stage = staged((other("team-a/x", 1, 1, holds=True), other("team-b/big", 2, 2)), limit=2)
    stage.decide()
    stage.decide(1)
    assert stage.status.attempt == 0, "one GPU is free, but the one before asked for two"


def test_who_has_no_ticket_yet_is_waited_for() -> None:
    stage = staged((other("team-a/new", undecided=True),))
    stage.decide()
    stage.decide(40)
    assert stage.status.attempt == 0
    assert stage.status.pending is not None
    assert "team-a/new" in stage.status.pending.message


def test_what_cannot_be_listed_starts_nothing() -> None:
    stage = staged(Unreadable("503"))
    stage.decide()
    assert stage.status.attempt == 0
    assert stage.status.pending is not None
    assert (stage.status.pending.reason, "503" in stage.status.pending.message) == ("LineUnreadable", True)


def test_without_gpus_nobody_waits() -> None:
    stage = Stage(sweep_class=klass(limits={"gpus": 2}))
    stage.line = (other("team-a/x", 1, 2, holds=True),)
    stage.decide()
    assert stage.status.attempt == 1


def test_who_was_refused_or_suspended_draws_anew() -> None:
    stage = staged((other("team-b/y", 5),))
    stage.decide()
    stage.sweep_class = klass(limits={"gpus": 2, "trials": 1})
    stage.decide(1)
    assert stage.condition(Condition.ADMITTED).status == "False"
    stage.sweep_class = klass(limits={"gpus": 2})
    stage.line = (other("team-b/y", 5), other("team-c/z", 9))
    stage.decide(1)
    assert stage.status.line is not None
    assert stage.status.line.ticket == 10


def test_gpu_hours_of_the_namespace_are_counted_over_its_sweeps() -> None:
    used = replace(other("team/old"), gpu_seconds=3 * 3600)
    elsewhere = replace(other("team-b/old"), gpu_seconds=100 * 3600)
    stage = staged((used, elsewhere), limit=8, gpuHours=4)
    stage.decide()
    stage.decide(1)
    assert stage.status.attempt == 1
    spent = staged((used, elsewhere), limit=8, gpuHours=4)
    spent.status = TrainSweepStatus(usage=UsageStatus(gpu_seconds=3600))
    spent.decide()
    assert spent.status.attempt == 0
    assert spent.status.pending is not None
    assert (spent.status.pending.reason, "4.0 of 4 GPU-hours of namespace team" in spent.status.pending.message) == (
        "GPUHoursSpent",
        True,
    )


# ------------------------------------------------------------------------------------------------- in any order


OBSERVED = Stage(spec=gpu_spec()).observed()
CLASSES = {4: klass(limits={"gpus": 4})}
SPECS = {gpus: resolve(gpu_spec(gpus), None) for gpus in (1, 2, 4)}


@dataclass
class Sweep:
    name: str
    gpus: int
    status: TrainSweepStatus = field(default_factory=TrainSweepStatus)
    version: int = 0
    finished: bool = False

    def body(self) -> dict[str, Any]:
        status = self.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if self.finished:
            status["conditions"] = [{"type": "Finished", "status": "True"}]
            status["attempts"] = [{"number": 1, "goneAt": to_text(NOW)}]
        meta = {"name": self.name, "namespace": "team", "uid": f"uid-{self.name}", "generation": 1}
        return {"metadata": meta, "spec": {}, "status": status}


class World:
    """Passes in two halves, observe and apply, that interleave as they like; a half that is lost is a crash."""

    def __init__(self, seed: int, limit: int = 4) -> None:
        self.rng, self.limit, self.now = random.Random(seed), limit, NOW  # noqa: S311  # no secret is drawn
        self.sweeps: dict[str, Sweep] = {}
        self.half: list[tuple[str, int, Any]] = []
        self.started: list[str] = []

    def observe(self, sweep: Sweep) -> None:
        """A pass up to its status: only what concerns the line, so that thousands of passes are cheap."""
        line = tuple(in_line(s.body()) for s in self.sweeps.values() if s is not sweep)
        own = replace(OBSERVED.sweep, name=sweep.name, uid=f"uid-{sweep.name}", status=sweep.status)
        draft = Draft(replace(OBSERVED, sweep=own, line=line, sweep_class=CLASSES[self.limit]), self.now)
        draft.condition(Condition.ADMITTED, True, Reason.ADMITTED)
        if may_start(draft, SPECS[sweep.gpus]):
            attempt = AttemptStatus(number=1, ray_job=sweep.name)
            draft.set(attempt=1, attempts=[attempt])
        self.half.append((sweep.name, sweep.version, draft.plan().status))

    def apply(self) -> None:
        name, version, status = self.half.pop(self.rng.randrange(len(self.half)))
        sweep = self.sweeps[name]
        if status is None or sweep.version != version or sweep.finished or self.rng.random() < 0.1:
            return  # a conflict, or a crash
        before, sweep.status, sweep.version = sweep.status.attempt, status, version + 1
        if status.attempt > before:
            self.started.append(name)

    def live(self) -> list[Sweep]:
        return [s for s in self.sweeps.values() if s.status.attempt and not s.finished]

    def step(self) -> None:
        self.now += self.rng.choice((0.0, 0.1, 1.0))
        waiting = [s for s in self.sweeps.values() if not s.status.attempt]
        draw = self.rng.random()
        if draw < 0.55 and waiting:
            self.observe(self.rng.choice(waiting))
        elif draw < 0.95 and self.half:
            self.apply()
        elif self.live():
            self.rng.choice(self.live()).finished = True
        assert sum(s.gpus for s in self.live()) <= self.limit


@pytest.mark.parametrize("seed", range(6))
def test_the_ceiling_holds_and_everybody_is_served_in_any_order_of_half_passes(seed: int) -> None:
    world = World(seed)
    for number in range(8):
        world.sweeps[f"s{number}"] = Sweep(f"s{number}", world.rng.choice((1, 1, 2, 4)))
        for _ in range(world.rng.randrange(12)):
            world.step()
    for _ in range(900):
        world.step()
        if len(world.started) == len(world.sweeps):
            break
    assert sorted(world.started) == sorted(world.sweeps), "somebody starved"


def test_three_are_named_and_of_four_one_is_counted() -> None:
    for many, said in ((3, "3 asked for by t1/x, t2/x, t3/x before it"), (4, "t1/x, t2/x, t3/x and 1 more before it")):
        stage = staged((other("team-a/x", 1, 2, holds=True), *(other(f"t{n}/x", 1 + n) for n in range(1, many + 1))))
        stage.decide()
        stage.decide(1)
        assert stage.status.pending is not None
        assert said in stage.status.pending.message


def test_places_have_their_ordinals() -> None:
    said = {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 10: "10th", 11: "11th", 12: "12th", 13: "13th", 14: "14th"}
    said |= {21: "21st", 22: "22nd", 23: "23rd", 24: "24th", 101: "101st", 111: "111th", 112: "112th", 113: "113th"}
    assert {number: _ordinal(number) for number in said} == said


def test_the_first_ticket_is_number_one() -> None:
    stage = staged(())
    stage.decide()
    assert stage.status.line is not None
    assert stage.status.line.ticket == 1


def test_who_holds_gpus_keeps_them_for_its_next_attempt() -> None:
    stage = staged(())
    stage.decide()
    stage.running().head_is_lost()
    stage.settled()
    stage.torn_down()
    stage.line = (other("team-a/x", 9, 2),)
    stage.decide(100)
    assert (stage.status.attempt, stage.status.line and stage.status.line.holds) == (2, True)


def test_who_runs_when_its_class_gets_a_limit_holds_what_it_has() -> None:
    stage = Stage(spec=gpu_spec(2), sweep_class=klass()).running()
    assert stage.status.line is None
    stage.sweep_class = klass(limits={"gpus": 8})
    stage.decide(60)
    assert stage.status.line is not None
    assert (stage.status.line.gpus, stage.status.line.holds) == (2, True)


def test_an_unreadable_line_is_a_passing_wait() -> None:
    stage = staged(Unreadable("503"))
    plan = stage.decide()
    assert stage.status.pending is not None
    assert stage.status.pending.reason == "LineUnreadable"
    assert not only(plan, EmitEvent)


def test_a_sweep_without_gpus_holds_its_place_at_once() -> None:
    stage = Stage(sweep_class=klass(limits={"gpus": 1}), line=(other("team-a/x", 1, holds=True),))
    stage.decide()
    assert stage.status.attempt == 1
    assert stage.status.line is not None
    assert (stage.status.line.gpus, stage.status.line.holds) == (0, True)


def test_who_waits_for_a_ceiling_that_is_taken_away_leaves_the_line_and_starts() -> None:
    stage = staged((other("team-a/x", 1, 2, holds=True),))
    stage.decide()
    stage.decide(1)
    assert stage.status.line is not None
    stage.sweep_class = klass()
    stage.decide(20)
    assert (stage.status.attempt, stage.status.line) == (1, None)


def test_without_a_class_there_is_no_line() -> None:
    stage = Stage(sweep_class=None, line=None)
    assert may_start(Draft(stage.observed(), stage.now), resolve(stage.spec, None))
