"""Usage and budgets: counted from the lifetimes of pods, over restarts and attempts, never twice; and what ends by them."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tests.unit.core.core_builders import NOW, Stage, control_of, head, klass, only, spec
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.status import TrainSweepStatus, UsageStatus
from trainsweep.contract.documents import Control, Limits, Outcome
from trainsweep.core import model
from trainsweep.core.model import PodView
from trainsweep.core.times import to_text
from trainsweep.core.usage import count, exhausted_at, over_budget

GPU_SPEC = {"training": {"workers": {"count": 1, "resources": {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}}}}


def pod(name: str, start: float | None, end: float | None = None, gpus: int = 1, cpus: int = 2) -> PodView:
    """A worker."""
    phase = "Pending" if start is None else "Running" if end is None else "Succeeded"
    return PodView(name, name, False, phase, gpus=gpus, cpus=cpus, started_at=start, ended_at=end)


def test_a_pod_counts_from_its_node_to_its_end() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100), pod("b", None)], NOW)
    assert (usage.gpu_seconds, usage.cpu_seconds, usage.gpus, usage.cpus) == (100, 200, 1, 2)
    usage = count(usage, [pod("a", NOW - 100, NOW + 30)], NOW + 50)
    assert (usage.gpu_seconds, usage.gpus) == (130, 0)
    assert count(usage, [pod("a", NOW - 100, NOW + 30)], NOW + 5000) == usage  # at rest there is nothing to write


def test_a_cpu_pod_without_gpus_is_counted_too() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100, gpus=0)], NOW)
    assert (usage.gpu_seconds, usage.cpu_seconds, usage.gpus, usage.cpus) == (0, 200, 0, 2)
    usage = count(UsageStatus(), [pod("a", NOW, gpus=0)], NOW)  # it has only begun
    assert (usage.cpu_seconds, usage.cpus) == (0, 2)
    usage = count(UsageStatus(), [pod("a", NOW - 9, NOW - 2, gpus=0)], NOW)  # it has come and gone
    assert (usage.cpu_seconds, usage.cpus) == (14, 0)


def test_pods_that_come_take_nothing_from_what_is_counted() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100)], NOW)
    found = count(usage, [pod("a", NOW - 100), pod("b", NOW - 50)], NOW + 10)
    assert (found.gpu_seconds, found.cpu_seconds) == (100 + 20, 200 + 40)


def test_a_pod_that_began_in_the_second_of_the_last_count_counts_once() -> None:
    usage = count(UsageStatus(), [pod("a", NOW)], NOW)
    assert (usage.gpu_seconds, usage.gpus) == (0, 1)
    assert count(usage, [pod("a", NOW)], NOW + 10).gpu_seconds == 10


def test_a_pod_that_had_ended_does_not_stand_for_one_that_vanished() -> None:
    ended = pod("b", NOW - 100, NOW - 1)
    usage = count(UsageStatus(), [pod("a", NOW - 100), ended], NOW)
    assert (usage.gpu_seconds, usage.gpus) == (199, 1)
    assert count(usage, [ended], NOW + 10).gpu_seconds == 199 + 10


def test_a_pod_that_ended_in_the_second_in_which_it_was_seen_running_has_not_vanished() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100)], NOW)
    assert (usage.gpu_seconds, usage.gpus) == (100, 1)
    assert count(usage, [pod("a", NOW - 100, NOW)], NOW + 3600).gpu_seconds == 100


def test_a_pod_that_starts_by_a_clock_ahead_of_ours_counts_from_its_start() -> None:
    early = count(UsageStatus(gpus=0, counted_until=to_text(NOW)), [pod("a", NOW + 15)], NOW + 10)
    assert (early.gpu_seconds, early.gpus) == (0, 0)
    assert count(early, [pod("a", NOW + 15)], NOW + 40).gpu_seconds == 25


def test_what_an_attempt_held_when_its_last_pod_went_is_no_loss_of_the_next_one() -> None:
    stage = budget_stage(gpuHours=100)
    stage.decide(60)
    assert stage.status.usage.gpus == 1
    stage.head_is_lost().pods = (pod("w", NOW),)
    stage.settled()
    stage.job, stage.hold, stage.cluster, stage.pods = None, None, None, ()
    stage.now -= 30  # the operator that takes over has a clock behind the other's: it counts nothing yet
    stage.decide()
    assert stage.attempt.gone_at is not None
    used = stage.status.usage
    assert (used.gpus, used.cpus) == (0, 0)
    stage.now += 7 * 86400
    stage.launched().decide(5)
    assert stage.status.usage.gpu_seconds == used.gpu_seconds


def test_what_is_given_back_is_not_held_any_more_although_no_second_is_added() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100, gpus=0)], NOW)
    found = count(usage, [], NOW + 10, alive_until=NOW)
    assert (found.cpu_seconds, found.cpus) == (200, 0)


def test_when_a_budget_will_be_used_up() -> None:
    used = TrainSweepStatus(usage=UsageStatus(gpu_seconds=1000, gpus=2, cpu_seconds=100, cpus=4))
    limited = TrainSweepSpec.model_validate(spec(**GPU_SPEC, budget={"gpuHours": 1, "cpuHours": 1}))
    assert exhausted_at(used, limited, None, NOW) == NOW + (3600 - 100) / 4
    for gpus in (1, 2):
        idle = TrainSweepStatus(usage=UsageStatus(gpu_seconds=1000, gpus=gpus))
        assert exhausted_at(idle, limited, None, NOW) == NOW + (3600 - 1000) / gpus
    assert exhausted_at(TrainSweepStatus(), limited, None, NOW) is None


def test_the_same_moment_counts_once() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100)], NOW)
    assert count(usage, [pod("a", NOW - 100)], NOW) == usage
    assert count(usage, [pod("a", NOW - 100)], NOW - 50) == usage  # a clock that went back
    more = [pod("a", NOW - 100), pod("b", NOW)]
    assert count(usage, more, NOW) == usage  # who came in it is seen by the next count
    assert count(usage, more, NOW + 10).gpu_seconds == 100 + 20


def test_a_pod_that_vanished_unseen_counts_until_it_was_missed_or_its_job_ended() -> None:
    usage = count(UsageStatus(), [pod("a", NOW - 100), pod("b", NOW - 100)], NOW)
    found = count(usage, [pod("b", NOW - 100)], NOW + 10)
    assert (found.gpu_seconds, found.cpu_seconds) == (200 + 20, 400 + 40)
    assert count(usage, [], NOW + 3600, alive_until=NOW + 60).gpu_seconds == 200 + 120
    assert count(usage, [], NOW + 3600, alive_until=NOW - 60).gpu_seconds == 200


@pytest.mark.parametrize("seed", range(20))
def test_however_often_it_is_counted_the_sum_is_that_of_the_lifetimes(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  # no secret
    lives = [(s := rng.randrange(0, 500), s + rng.randrange(1, 500), rng.randrange(0, 5)) for _ in range(40)]
    usage, at = UsageStatus(), 0
    while at < 1100:
        at += rng.choice((1, 5, 30, 200))
        there = [
            # That it ended is seen in the second of its end, or only after it.
            pod(str(i), NOW + s, NOW + e if e < at or (e == at and rng.random() < 0.5) else None, gpus)
            for i, (s, e, gpus) in enumerate(lives)
            if s <= at
        ]
        told = count(usage, there, NOW + at)
        if rng.random() < 0.5:  # what is not written is counted again
            usage = told
    usage = count(usage, there, NOW + at)
    assert usage.gpu_seconds == sum((e - s) * gpus for s, e, gpus in lives)


def budget_stage(**budget: float) -> Stage:
    """A running sweep with a budget and one worker that holds a GPU since the beginning."""
    stage = Stage(spec=spec(budget=budget, **GPU_SPEC)).running().reporting()
    stage.pods = (head(cpus=1, started_at=NOW), pod("w", NOW))
    return stage


def test_the_driver_is_told_what_is_left_at_the_start() -> None:
    stage = Stage(spec=spec(budget={"gpuHours": 2, "cpuHours": 10}, **GPU_SPEC))
    body = only(stage.decide(), model.CreateRayJob)[0].body["spec"]["rayClusterSpec"]
    text = body["headGroupSpec"]["template"]["metadata"]["annotations"]["trainsweep.io/control"]
    limits = Control.model_validate_json(text).limits
    assert limits == Limits(gpu_seconds=7200, cpu_seconds=36000)


@pytest.mark.parametrize(("budget", "after"), [({"gpuHours": 0.5}, 1800), ({"cpuHours": 0.5}, 600)])
def test_the_operator_asks_for_a_stop_when_the_budget_is_used_up(budget: dict[str, float], after: float) -> None:
    stage = budget_stage(**budget)
    stage.now = NOW + after - 5
    plan = stage.reporting().decide()
    assert stage.attempt.stop_reason == ""
    assert plan.wake_at is not None
    assert plan.wake_at <= NOW + after
    stop = control_of(stage.reporting().decide(6)).stop
    assert stop is not None
    assert stop.reason == "BudgetExceeded"
    stage.waiting().looked(outcome=Outcome.STOPPED).decide(5)
    stage.ended(outcome=Outcome.STOPPED)
    stage.decide(5)
    stage.decide(1)
    assert stage.state == "False/BudgetExceeded"
    assert "-hours are used" in stage.status.conditions[0].message


def test_the_drivers_own_end_by_the_budget_is_verified_and_final() -> None:
    stage = budget_stage(gpuHours=1).waiting()
    stage.looked(outcome=Outcome.BUDGET_EXCEEDED).decide(5)
    stage.ended(outcome=Outcome.BUDGET_EXCEEDED)
    stage.decide(5)
    stage.decide(1)
    assert (stage.state, stage.attempt.end_class) == ("False/BudgetExceeded", "Budget")


def test_a_class_bounds_the_budget() -> None:
    stage = Stage(spec=spec(budget={"gpuHours": 5}, **GPU_SPEC), sweep_class=klass(limits={"gpuHours": 1}))
    stage.decide()
    assert stage.state == "Unknown/LimitExceeded"
    stage = Stage(spec=spec(**GPU_SPEC), sweep_class=klass(limits={"gpuHours": 1})).running().reporting()
    stage.pods = (head(), pod("w", NOW))
    stage.now = NOW + 3601
    stage.decide()
    assert stage.attempt.stop_reason == "BudgetExceeded"


def test_a_gpu_budget_without_gpus_is_refused() -> None:
    stage = Stage(spec=spec(budget={"gpuHours": 5}))
    stage.decide()
    assert stage.state == "Unknown/InvalidSpec"


def test_a_raised_budget_reaches_the_running_driver() -> None:
    stage = budget_stage(gpuHours=1)
    stage.pods = (head(control=Control(attempt_id=stage.own, limits=Limits(gpu_seconds=3600))), pod("w", NOW))
    assert not only(stage.decide(5), model.PatchControl)
    stage.spec = spec(budget={"gpuHours": 2}, **GPU_SPEC)
    assert control_of(stage.decide(5)).limits == Limits(gpu_seconds=7200)


def test_a_budget_that_is_used_up_between_attempts_starts_none() -> None:
    stage = budget_stage(gpuHours=1)
    stage.now = NOW + 3500
    stage.reporting().decide()
    stage.ended(outcome=Outcome.FAILED, reason="InternalError")
    stage.settled()
    stage.now = NOW + 3700  # the pods were there until now
    stage.torn_down()
    stage.decide(60)
    assert stage.state == "False/BudgetExceeded"
    assert stage.attempt.number == 1


def test_the_next_attempt_is_told_what_the_first_one_left() -> None:
    stage = budget_stage(gpuHours=1)
    stage.now = NOW + 600
    stage.ended(outcome=Outcome.FAILED, reason="InternalError")
    stage.settled()
    assert isinstance(stage.pods, tuple)
    stage.pods = tuple(replace(p, phase="Succeeded", ended_at=stage.now) for p in stage.pods)
    stage.torn_down()
    plan = stage.decide(20)
    assert stage.attempt.number == 2
    assert (stage.attempt.gpu_seconds_before, stage.status.usage.gpu_seconds) == (601, 601)
    assert '\\"gpuSeconds\\":2999' in json.dumps(only(plan, model.CreateRayJob)[0].body)


def test_a_used_up_budget_is_told_in_hours() -> None:
    limited = TrainSweepSpec.model_validate(spec(**GPU_SPEC, budget={"gpuHours": 2}))
    used = TrainSweepStatus(usage=UsageStatus(gpu_seconds=9000))
    assert over_budget(used, limited, None).startswith("2.50 of 2.00 GPU-hours are used: raise budget.gpuHours")
    assert over_budget(TrainSweepStatus(usage=UsageStatus(gpu_seconds=7199)), limited, None) == ""
    assert over_budget(TrainSweepStatus(usage=UsageStatus(gpu_seconds=7200)), limited, None) != ""
