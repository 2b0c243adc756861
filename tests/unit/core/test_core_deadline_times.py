"""Arithmetic of the deadlines: when the next one is due, and what KubeRay is given as its backstop."""

from __future__ import annotations

import pytest

from tests.unit.core.core_builders import NOW, spec
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.core.deadlines import Deadline, backstop_seconds, next_deadline, stop_due
from trainsweep.core.ends import Stop


def test_a_deadline_that_is_long_past_leaves_the_backstop_the_one_second_that_is_its_least() -> None:
    found = TrainSweepSpec.model_validate(spec())
    assert backstop_seconds(found, NOW, NOW - 5000) == 1
    assert backstop_seconds(found, NOW, NOW - 10) == -10 + 10 + 100 + 300


@pytest.mark.parametrize(
    ("after", "due", "following"),
    [
        (0, None, 120),
        (110, None, 120),  # past, and the driver's to keep
        (120, Stop.RUN_DEADLINE, 160),
        (160, Stop.RUN_DEADLINE, None),
    ],
)
def test_the_next_look_is_when_the_drivers_margin_is_over(
    after: float, due: Stop | None, following: int | None
) -> None:
    found = [Deadline(Stop.RUN_DEADLINE, NOW + 100, 20.0), Deadline(Stop.STALL_DEADLINE, NOW + 90, 70.0)]
    assert stop_due(found, NOW + after) is due
    assert next_deadline(found, NOW + after) == (None if following is None else NOW + following)
