"""Seeded schedules: the real observe(), decide() and apply() among failing doubles, invariants after each step.

`SEEDS=n` sets how many, `SEED=k` runs one and prints its life.
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest

from tests.simulation.checks import Violation, condition
from tests.simulation.schedule import HORIZON, Schedule, draw, install
from tests.simulation.world import START, World
from trainsweep.runtime.kube import HOLD, POD, RAY_CLUSTER, RAY_JOB, SWEEP

SEEDS = int(os.environ.get("SEEDS", "300"))
BOUND = 3 * 3600.0
"""Virtual seconds after the last fault within which every sweep must be at rest."""
BATCH = 25


def simulate(seed: int) -> tuple[World, Schedule]:
    """The life of one sweep under the schedule of a seed, to its rest and beyond."""
    rng = random.Random(seed)  # noqa: S311  # a schedule, no secret
    schedule = draw(rng)
    world = World(rng, schedule.spec)
    try:
        install(world, schedule)
        _live(world, schedule)
    except Exception as error:
        life = "\n".join(world.log[-120:])
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{schedule}\n{life}") from error
    return world, schedule


def _live(world: World, schedule: Schedule) -> None:
    world.advance(START + HORIZON)
    if not world.run(START + HORIZON + BOUND, world.at_rest):
        raise Violation(f"I5: not at rest {BOUND:.0f} s after the last fault: {_state(world)}")
    if schedule.profile == "operator":
        _one_clean_attempt(world)
    _rest(world)
    _leave(world)


def _state(world: World) -> str:
    found = world.sweep()
    names = [o["metadata"]["name"] for kind in (RAY_JOB, HOLD, RAY_CLUSTER, POD) for o in world.server.all(kind)]
    return json.dumps([(found or {}).get("metadata"), (found or {}).get("status"), names], indent=1)


def _one_clean_attempt(world: World) -> None:
    """I8: whatever happens to the operator and to its calls, the outcome is that of a quiet life."""
    found = world.sweep()
    assert found is not None
    said = condition(found, "Succeeded")
    made = {name: len(uids) for name, uids in world.checks.jobs_made.items()}
    if said != ("True", "Completed") or found["status"]["attempt"] != 1 or list(made.values()) != [1]:
        raise Violation(f"I8: {said}, attempt {found['status']['attempt']}, RayJobs made {made}")


def _rest(world: World) -> None:
    """I6: at rest no pass writes; the RayJob object goes after its time."""
    if world.sweep() is None:
        return
    world.advance(world.now + 100)
    world.enqueue(0.0)
    world.advance(world.now + 5)
    world.checks.quiet = True
    for _ in range(5):
        world.enqueue(0.0)
        world.advance(world.now + 5)
    world.checks.quiet = False
    world.advance(world.now + world.setting("cleanup", "rayJobTTLSeconds") + 700)
    found = world.sweep()
    assert found is not None
    last = found["status"]["attempts"][-1]["rayJob"] if found["status"].get("attempts") else ""
    if world.server.find(RAY_JOB, last) is not None:
        raise Violation(f"I9: RayJob {last} outlives its time")


def _leave(world: World) -> None:
    """I9: after the sweep nothing of it is left."""
    if world.sweep() is not None:
        world.server.delete(SWEEP, "digits", foreground=world.rng.random() < 0.5)
    world.advance(world.now + 300)
    left = [o["metadata"]["name"] for kind in (SWEEP, RAY_JOB, HOLD, RAY_CLUSTER, POD) for o in world.server.all(kind)]
    if left:
        raise Violation(f"I9: {left} outlive the sweep")


if "SEED" in os.environ:

    def test_one_seed(capsys: pytest.CaptureFixture[str]) -> None:
        world, schedule = simulate(int(os.environ["SEED"]))
        with capsys.disabled():
            print(f"\n{schedule}\n" + "\n".join(world.log))

else:

    @pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
    def test_invariants_hold(first: int) -> None:
        for seed in range(first, min(first + BATCH, SEEDS)):
            simulate(seed)


def test_checks_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decide() that never settles is found out."""
    from trainsweep.core import decide

    def careless(draft: Any, spec: Any) -> None:
        draft.stamp_attempt("settled_at")
        draft.finish(True, "Completed", "trust me")

    monkeypatch.setattr(decide, "settle", careless)
    with pytest.raises(AssertionError, match="seed"):
        _many(20)


def _many(seeds: int) -> None:
    for seed in range(seeds):
        simulate(seed)
