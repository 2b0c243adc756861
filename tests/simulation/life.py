"""The life of one sweep under a schedule: to its rest, and beyond, to the point where nothing of it is left."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from tests.simulation import rules
from tests.simulation.checks import Violation, condition
from tests.simulation.faults import FAULTS, LATE
from tests.simulation.schedule import HORIZON, Schedule, world_of
from tests.simulation.world import START, World
from trainsweep.runtime.kube import HOLD, POD, RAY_CLUSTER, RAY_JOB, SWEEP
from trainsweep.runtime.resync import ORPHAN_SECONDS

BOUND = 3 * 3600.0
"""Virtual seconds after the last fault within which every sweep must be at rest."""


@dataclass
class Tally:
    """What one life, or many, have gone through."""

    lives: int = 0
    steps: list[int] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    crashes: list[int] = field(default_factory=list)
    hit: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.lives += other.lives
        for name in ("steps", "faults", "crashes"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("hit", "seen", "rules", "made", "ends"):
            getattr(self, name).update(getattr(other, name))


class Failed(AssertionError):  # noqa: N818  # named for what it says
    """A life that broke an invariant, or an exception of ours."""

    def __init__(self, schedule: Schedule, error: BaseException, log: list[str]) -> None:
        self.schedule, self.error, self.log = schedule, error, log
        self.what = str(error).partition(":")[0] if isinstance(error, Violation) else type(error).__name__
        """What makes two failures the same one."""
        life = "\n".join(log[-120:])
        super().__init__(f"{type(error).__name__}: {error}\n{schedule}\n{life}")


def simulate(schedule: Schedule) -> tuple[Tally, list[str]]:
    """One whole life; gives back what it went through, and its log.

    Raises:
        Failed: with the schedule and the log.
    """
    with rules.counted() as counted:
        world = world_of(schedule)
        try:
            _live(world, schedule)
        except Exception as error:
            raise Failed(schedule, error, world.log) from error
        finally:
            world.close()
    faults, made = world.faults, world.faults.made
    tally = Tally(
        1,
        [faults.steps],
        [sum(made[f] for f in (*FAULTS, LATE, "killed"))],
        [faults.crashes],
        faults.hit,
        faults.seen,
        counted,
        made,
        Counter({world.last_word: 1}),
    )
    return tally, world.log


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
    world.enqueue()
    world.advance(world.now + 5)
    world.checks.quiet = True
    for _ in range(5):
        world.enqueue()
        world.advance(world.now + 5)
    world.checks.quiet = False
    world.advance(world.now + world.setting("cleanup", "rayJobTTLSeconds") + 700)
    found = world.sweep()
    assert found is not None
    last = found["status"]["attempts"][-1]["rayJob"] if found["status"].get("attempts") else ""
    if world.server.find(RAY_JOB, last) is not None:
        raise Violation(f"I9: RayJob {last} outlives its time")


def _leave(world: World) -> None:
    """I9: after the sweep nothing of it is left, once the hourly search for orphans has passed."""
    long = bool(world.checks.gone)  # an earlier sweep may have been deleted with its dependents orphaned
    if world.sweep() is not None:
        policy = world.rng.choice(("Background", "Foreground", "Orphan"))
        world.server.delete(SWEEP, "digits", policy=policy)
        long = long or policy == "Orphan"
    world.advance(world.now + (3 * ORPHAN_SECONDS if long else 300))
    left = [o["metadata"]["name"] for kind in (SWEEP, RAY_JOB, HOLD, RAY_CLUSTER, POD) for o in world.server.all(kind)]
    if left:
        raise Violation(f"I9: {left} outlive the sweep")
