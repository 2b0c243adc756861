"""The status of a sweep of any size fits into 16 KiB, and what was cut is not written again and again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.core_builders import Stage, klass, missing, spec
from trainsweep.api.conditions import Condition
from trainsweep.api.status import AttemptStatus, TrainSweepStatus
from trainsweep.contract.documents import Best, Outcome, TrialCounts
from trainsweep.core.model import ClassView, Proof
from trainsweep.core.size import CUTS, LIMIT, bounded, short, size_of

TRIALS = TrialCounts(expected=10_000, succeeded=8_000, early_stopped=1_500, failed=400, running=64, pending=36)


def long_life(attempts: int, message: str, parameters: dict[str, Any], found: ClassView | None = None) -> Stage:
    """A sweep that failed in every way there is, and goes on."""
    retries = {"application": 100, "infrastructure": 100, "eviction": 100, "startup": 100}
    stage = Stage(
        spec=spec(trials={"count": 10_000, "maxConcurrent": 64}, failurePolicy={"attempts": retries}),
        sweep_class=found or klass(),
    )
    best = Best(trial="t9999", value=0.123456789, step=10_000, parameters=parameters, checkpoint="train/t9999-0/c")
    for _ in range(attempts):
        stage.running().reporting(trials=TRIALS, best=best).decide(60)
        stage.ended(outcome=Outcome.FAILED, reason="InternalError", message=message[:1000])
        stage.settled(Proof.MISSING, missing=tuple(missing() for _ in range(16)))
        stage.torn_down()
        stage.now += 3600
    stage.running().reporting(trials=TRIALS, best=best).decide(60)
    return stage


def test_10_000_trials_and_50_attempts_fit_into_16_kib() -> None:
    stage = long_life(50, "RuntimeError: CUDA error: an illegal memory access was encountered " * 14, {"lr": 0.01})
    assert stage.status.attempt == 51
    assert size_of(stage.status) <= LIMIT
    assert len(stage.status.attempts) == 20
    assert stage.status.trials.summary == "9900/10000"


def test_names_and_values_as_long_as_they_may_be_fit_too() -> None:
    wide = {f"p{i:02d}_{'x' * 59}": "v" * 1000 for i in range(64)}
    stage = long_life(20, "m" * 1000, wide)
    assert size_of(stage.status) <= LIMIT
    for _ in range(3):
        plan = stage.decide(5)
        stage.status = bounded(stage.status)
        assert plan.status is None or size_of(plan.status) <= LIMIT
    assert stage.has(Condition.SUCCEEDED)


def test_the_copy_of_a_class_is_never_cut() -> None:
    """Without it nothing is proven once the class is gone; all else is said elsewhere too."""
    role = "arn:aws:iam::111122223333:role/" + "r" * 500
    export = "s3://bucket/" + "x" * 500
    found = klass(
        storage={"verifierRoleARN": role},
        defaults={"checkpoints": {"export": {"uri": export}}, "storage": {"region": "r" * 32}},
    )
    wide = {f"p{i:02d}_{'x' * 59}": "v" * 1000 for i in range(64)}
    stage = long_life(20, "m" * 1000, wide, found)
    assert size_of(stage.status) <= LIMIT
    assert stage.status.resolved.granted is not None
    assert stage.status.resolved.granted.defaults["checkpoints"] == {"export": {"uri": export}}


def test_what_fits_is_not_touched() -> None:
    stage = Stage().running().reporting()
    stage.decide(40)
    assert bounded(stage.status) is stage.status


def test_what_was_cut_is_not_written_again() -> None:
    wide = {f"p{i:02d}_{'x' * 59}": "v" * 1000 for i in range(64)}
    stage = long_life(3, "m" * 1000, wide)
    stage.decide(60)
    stage.decide(60)
    before = stage.status
    assert stage.progress is not None
    assert stage.decide(60).status is None
    assert stage.status == before


@pytest.mark.parametrize("cut", range(1, 8))
def test_every_cut_makes_it_smaller_or_leaves_it(cut: int) -> None:
    from trainsweep.core.size import CUTS

    status = long_life(2, "m" * 1000, {f"p{i}": "v" * 200 for i in range(64)}).status
    assert size_of(CUTS[cut - 1](status)) <= size_of(status)


def test_a_status_without_a_best_is_cut_too() -> None:
    stage = long_life(20, "m" * 1000, {})
    nothing = stage.status.model_copy(update={"best": None})
    for cut in CUTS:
        assert cut(nothing).best is None


def test_a_text_that_is_cut_shows_it_and_is_as_long_as_it_may_be() -> None:
    assert short("x" * 64, 64) == "x" * 64
    assert short("x" * 65, 64) == short("x" * 999, 64) == "x" * 60 + " ..."


def test_of_the_newest_attempt_all_is_kept_while_the_earlier_ones_are_cut() -> None:
    status = long_life(3, "m" * 1000, {}).status
    long = [a.model_copy(update={"message": "m" * 1000}) for a in status.attempts]
    *earlier, newest = CUTS[0](status.model_copy(update={"attempts": long})).attempts
    assert (newest, newest.spec_digest != "") == (long[-1], True)
    assert [(a.spec_digest, len(a.message)) for a in earlier] == [("", 120)] * 3


def test_a_status_of_just_the_size_is_left_as_it_is() -> None:
    status = TrainSweepStatus(attempts=[AttemptStatus(number=1, ray_job="digits-a1", message="m")])
    room = LIMIT - size_of(status)
    (attempt,) = status.attempts
    full = TrainSweepStatus(attempts=[attempt.model_copy(update={"message": "m" * (room + 1)})])
    assert size_of(full) == LIMIT
    assert bounded(full) is full
