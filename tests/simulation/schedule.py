"""From a seed to a schedule: faults, what people do, how drivers behave. All of it ends at the horizon."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.driver import Behaviour
from tests.simulation.shell import Odds
from tests.simulation.world import SPEC, START, World
from trainsweep.contract import labels
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.runtime.kube import HOLD, POD, RAY_CLUSTER, RAY_JOB, SWEEP, Object

HORIZON = 500.0


@dataclass
class Schedule:
    """What a seed means, in words that a failure prints."""

    profile: str
    spec: dict[str, Any]
    odds: Odds
    lost_watch: float
    skew: float
    """Seconds by which the clocks of two operator processes may differ."""
    actions: list[tuple[float, str]] = field(default_factory=list)
    behaviours: dict[int, Behaviour] = field(default_factory=dict)

    def __str__(self) -> str:
        said = "\n".join(f"  {at:7.1f} {what}" for at, what in self.actions)
        how = "\n".join(f"  driver of attempt {n}: {b}" for n, b in self.behaviours.items())
        limits = {k: self.spec[k] for k in ("deadlines", "checkpoints", "failurePolicy")}
        head = f"profile {self.profile}, {self.odds}, lost watch {self.lost_watch}, skew {self.skew}"
        return f"{head}\n  {limits}\n{said}\n{how}"


PROFILES = ("operator", "cluster", "people", "all")


def draw(rng: random.Random) -> Schedule:
    """The schedule of a seed. Profile `operator` has faults of the operator and its calls only."""
    profile = rng.choice(PROFILES)
    spec = copy.deepcopy(SPEC)
    odds = Odds(interleave=0.05)
    if profile in ("operator", "all") or rng.random() < 0.3:
        odds = Odds(
            crash=rng.choice((0.0, 0.005, 0.02)),
            error=rng.choice((0.0, 0.02, 0.1)),
            lost_reply=rng.choice((0.0, 0.02, 0.1)),
            conflict=rng.choice((0.0, 0.1, 0.3)),
            interleave=rng.choice((0.0, 0.05, 0.2)),
        )
    out = Schedule(profile, spec, odds, rng.choice((0.0, 0.0, 0.3)), rng.choice((0.0, 0.0, 40.0)))
    out.behaviours = {n: _behaviour(rng, profile) for n in range(1, 6)}
    if profile != "operator":
        _settings(rng, spec, out)
        names = _CLUSTER if profile == "cluster" else _PEOPLE if profile == "people" else [*_CLUSTER, *_PEOPLE]
        for _ in range(rng.choice((1, 1, 2, 3, 4))):
            out.actions.append((rng.uniform(0, rng.choice((100, 200, 400))), rng.choice(names)))
    if rng.random() < 0.3:
        out.actions.append((rng.uniform(0, 200), "operator-away"))
    out.actions.sort()
    return out


def _settings(rng: random.Random, spec: dict[str, Any], out: Schedule) -> None:
    if any(b.hang_at is not None for b in out.behaviours.values()) or rng.random() < 0.3:
        # Nothing but a deadline ends a driver that hangs.
        spec["deadlines"]["runSeconds"] = rng.choice((200, 300))
    if rng.random() < 0.2:
        spec["deadlines"]["totalSeconds"] = rng.choice((300, 600))
    if rng.random() < 0.2:
        spec["checkpoints"]["verify"]["onMissing"] = "Warn"
    if rng.random() < 0.2:
        zero = rng.choice(("application", "infrastructure", "eviction", "startup"))
        spec["failurePolicy"]["attempts"] = {zero: 0}


def _behaviour(rng: random.Random, profile: str) -> Behaviour:
    how = Behaviour(trial_seconds=rng.choice((5, 10, 20, 30)), startup_seconds=rng.choice((5, 10)))
    if profile == "operator" or rng.random() < 0.4:
        return how
    if rng.random() < 0.3:
        how.spoils = rng.choice((1, 2, 5))
    match rng.randrange(9):
        case 0:
            how.crash_at = rng.uniform(1, 120)
        case 1:
            how.crash_at, how.crash_reason = rng.uniform(1, 60), FailureReason.INTERNAL
        case 2:
            how.crash_at, how.crash_reason = rng.uniform(1, 20), FailureReason.BAD_ENTRYPOINT
        case 3:
            how.hang_at = rng.uniform(1, 120)
        case 4:
            how.disobeys = True
        case 5:
            how.forges = True
        case 6:
            how.mends = 0
        case 7:
            how.dies = rng.choice(("waiting", "told", "head"))
        case _:
            how.outcome = rng.choice((Outcome.GOAL_REACHED, Outcome.MAX_FAILED_TRIALS))
    return how


# ---------------------------------------------------------------------------------------------------- what happens


def _job(world: World) -> Object | None:
    found = list(world.server.all(RAY_JOB))
    return found[-1] if found else None


def _head_lost(world: World) -> None:
    for pod in world.server.selected(POD, "ray.io/node-type=head"):
        if world.rng.random() < 0.5:
            world.server.remove(POD, pod["metadata"]["name"])
            driver = world.driver_on(pod["metadata"]["uid"])
            if driver is not None:
                driver.kill()
        else:
            world.server.delete(POD, pod["metadata"]["name"])


def _job_deleted(world: World) -> None:
    if (job := _job(world)) is not None and not job["metadata"].get("deletionTimestamp"):
        world.server.delete(RAY_JOB, job["metadata"]["name"], foreground=world.rng.random() < 0.3)


def _cluster_deleted(world: World) -> None:
    for cluster in list(world.server.all(RAY_CLUSTER)):
        world.server.delete(RAY_CLUSTER, cluster["metadata"]["name"])


def _suspended(world: World) -> None:
    job = _job(world)
    if job is None or job["metadata"].get("deletionTimestamp"):
        return
    name = job["metadata"]["name"]
    world.server.patch(RAY_JOB, name, {"spec": {"suspend": True}})

    def resume() -> None:
        if world.server.find(RAY_JOB, name) is not None:
            world.server.patch(RAY_JOB, name, {"spec": {"suspend": False}})

    world.at(world.now + world.rng.uniform(10, 60), resume)


def _invalidated(world: World) -> None:
    if (job := _job(world)) is not None:
        world.kuberay.invalidate(job["metadata"]["name"])


def _stopped(world: World) -> None:
    """Somebody calls the Ray job API."""
    for driver in world.drivers:
        if driver.alive:
            driver.state = "STOPPED"


def _damaged(world: World) -> None:
    world.store.damaged = True


def _store_away(world: World) -> None:
    world.store.unreadable_until = world.now + world.rng.choice((20.0, 90.0, 250.0))


def _store_away_long(world: World) -> None:
    world.store.unreadable_until = world.now + 900.0


def _kuberay_away(world: World) -> None:
    world.kuberay.down_until = world.now + world.rng.uniform(10, 120)


def _no_nodes(world: World) -> None:
    world.no_nodes_until = world.now + world.rng.choice((60.0, 300.0))


def _operator_away(world: World) -> None:
    world.kill_operator(world.rng.choice((20.0, 120.0, 400.0)))


def _hold_deleted(world: World) -> None:
    for hold in list(world.server.all(HOLD)):
        world.server.delete(HOLD, hold["metadata"]["name"])


def _delete(world: World, *, foreground: bool) -> None:
    found = world.sweep()
    if found is not None and not found["metadata"].get("deletionTimestamp"):
        world.server.delete(SWEEP, "digits", foreground=foreground)


def _force(world: World) -> None:
    if world.sweep() is not None:
        world.server.patch(SWEEP, "digits", {"metadata": {"annotations": {labels.FORCE_RELEASE: "yes"}}})


def _delete_and_force(world: World) -> None:
    _delete(world, foreground=world.rng.random() < 0.5)
    world.at(world.now + world.rng.uniform(0, 40), lambda: _force(world))


def _edit(world: World) -> None:
    found = world.sweep()
    if found is None:
        return
    change: dict[str, Any] = world.rng.choice(
        (
            {"deadlines": {"runSeconds": world.rng.choice((200, 400))}},
            {"deadlines": {"runSeconds": None}},
            {"deadlines": {"totalSeconds": world.rng.choice((400, 800))}},
            {"failurePolicy": {"attempts": {"application": 3, "infrastructure": 4, "eviction": 12, "startup": 2}}},
            {"training": {"image": f"registry.example/train:{world.rng.randrange(9)}"}},
            {"cleanup": {"deletionGraceSeconds": 250}},
        )
    )
    hangs = any(d.alive and d.how.hang_at is not None for d in world.drivers)
    told = {**found["spec"]["deadlines"], **change.get("deadlines", {})}
    ordered = (told.get("runSeconds") or 0) <= (told.get("totalSeconds") or 10_000)  # else the API server says no
    if ordered and not (hangs and change == {"deadlines": {"runSeconds": None}}):
        world.server.patch(SWEEP, "digits", {"spec": change})


def _suspend_sweep(world: World) -> None:
    """A person suspends, and resumes before the faults stop."""
    if world.sweep() is None:
        return
    world.server.patch(SWEEP, "digits", {"spec": {"suspend": True}})

    def resume() -> None:
        if world.sweep() is not None:
            world.server.patch(SWEEP, "digits", {"spec": {"suspend": False}})

    world.at(world.now + world.rng.choice((1.0, 20.0, 90.0)), resume)


def _recreate(world: World) -> None:
    _delete(world, foreground=world.rng.random() < 0.5)

    world.recreating += 1

    def again() -> None:
        found = world.sweep()
        if found is None or not found["metadata"].get("deletionTimestamp"):
            world.recreating -= 1
        if found is None:
            world.apply_sweep()
        elif found["metadata"].get("deletionTimestamp"):
            world.at(world.now + 5, again)

    world.at(world.now + 5, again)


ACTIONS: dict[str, Callable[[World], None]] = {
    "head-lost": _head_lost,
    "rayjob-deleted": _job_deleted,
    "raycluster-deleted": _cluster_deleted,
    "suspended": _suspended,
    "invalidated": _invalidated,
    "stopped-from-outside": _stopped,
    "checkpoint-damaged": _damaged,
    "store-away": _store_away,
    "store-away-long": _store_away_long,
    "kuberay-away": _kuberay_away,
    "no-nodes": _no_nodes,
    "operator-away": _operator_away,
    "hold-deleted": _hold_deleted,
    "delete-background": lambda world: _delete(world, foreground=False),
    "delete-foreground": lambda world: _delete(world, foreground=True),
    "delete-and-force": _delete_and_force,
    "edit": _edit,
    "recreate": _recreate,
    "suspend-sweep": _suspend_sweep,
}
_PEOPLE = [
    "rayjob-deleted",
    "hold-deleted",
    "delete-background",
    "delete-foreground",
    "delete-and-force",
    "edit",
    "edit",
    "recreate",
    "suspend-sweep",
    "suspend-sweep",
]
_CLUSTER = [name for name in ACTIONS if name not in _PEOPLE and name != "operator-away"] + ["rayjob-deleted"]


def install(world: World, schedule: Schedule) -> None:
    """Puts the schedule into the world's clock; at the horizon every fault stops."""
    world.odds, world.lost_watch, world.skew = schedule.odds, schedule.lost_watch, schedule.skew
    world.behave = lambda n: schedule.behaviours.get(n, Behaviour()) if world.now < START + HORIZON else Behaviour()

    def act(what: str) -> Callable[[], None]:
        def now() -> None:
            world.note(f"*** {what}")
            ACTIONS[what](world)

        return now

    for at, what in schedule.actions:
        world.at(START + at, act(what))

    def stop() -> None:
        world.note("*** faults stop")
        world.odds, world.lost_watch = Odds(), 0.0

    world.at(START + HORIZON, stop)
