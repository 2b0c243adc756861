"""The budget of writes: what one quiet life of one attempt costs the API server, counted at the double."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.simulation.checks import condition
from tests.simulation.driver import Behaviour
from tests.simulation.world import SPEC, START, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World(random.Random(7), SPEC)  # noqa: S311  # a schedule, no secret
    yield made
    made.close()


def quiet_life(world: World, trial_seconds: float) -> World:
    """No fault, nobody does anything."""
    world.behave = lambda _: Behaviour(trial_seconds=trial_seconds)
    assert world.run(START + 5000, world.at_rest)
    found = world.sweep()
    assert found is not None
    assert condition(found, "Succeeded") == ("True", "Completed")
    return world


def test_short_life_costs_at_most_twelve_writes_and_eight_events(world: World) -> None:
    quiet_life(world, trial_seconds=5)
    counted = Counter(world.checks.writes)
    counted["put_status", "trainsweeps"] -= world.measured
    assert world.measured <= (world.now - START) / 30
    assert sum(counted.values()) <= 12, counted
    assert counted == {
        ("patch", "trainsweeps"): 2,  # the finalizer, on and off
        ("put_status", "trainsweeps"): 5,  # launched, running, verified, finished, released
        ("create", "trainsweepholds"): 1,
        ("create", "rayjobs"): 1,
        ("patch", "pods"): 1,  # the verdict
        ("patch", "rayjobs"): 1,  # the lease
        ("delete", "trainsweepholds"): 1,
    }
    assert 1 <= len(world.checks.events) <= 8


def test_long_life_adds_one_status_write_for_thirty_seconds_at_most(world: World) -> None:
    quiet_life(world, trial_seconds=150)
    lived = world.now - START
    assert lived > 600
    assert world.measured > 5
    assert len(world.checks.writes) <= 12 + lived / 30


def test_at_rest_ten_passes_write_nothing(world: World) -> None:
    quiet_life(world, trial_seconds=5)
    world.checks.quiet = True
    for _ in range(10):
        world.enqueue()
        world.advance(world.now + 5)
