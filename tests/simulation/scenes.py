"""What chance alone would hardly bring together: each scene makes for one rule of `core.ends`, or for one rare call."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.actions import ENDINGS
from tests.simulation.driver import Behaviour
from tests.simulation.faults import CRASH_AFTER, LATE, Aimed
from tests.simulation.world import START
from trainsweep.contract.documents import EXIT_USAGE, FailureReason, Outcome
from trainsweep.core.times import to_text

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule


@dataclass(frozen=True)
class Scene:
    """What to do to a schedule. `weight`: how often it is played, more where its rule is seldom reached."""

    play: Callable[[random.Random, Schedule], None]
    weight: int = 1


SECONDS_OF_CPU = 1 / 3600


def _backstop(rng: random.Random, out: Schedule) -> None:
    """KubeRay's backstop strikes while we are away."""
    out.spec["deadlines"] = {"startupSeconds": 60, "runSeconds": 60}
    out.spec["cleanup"]["stopGraceSeconds"] = 5
    out.behaviours[1].hang_at, out.behaviours[1].crash_at = 1.0, None
    out.actions = [(40.0, "operator-away-long")]


def _image_without_driver(rng: random.Random, out: Schedule) -> None:
    first = out.behaviours[1]
    first.crash_at, first.crash_reason = 1.0, None
    if rng.random() < 0.5:
        first.says = "/usr/bin/python: No module named trainjobs"
    else:
        first.crash_code = EXIT_USAGE


def _bad_image(rng: random.Random, out: Schedule) -> None:
    out.actions.insert(0, (0.1, "bad-image"))


def _store_fails_the_driver(rng: random.Random, out: Schedule) -> None:
    out.behaviours[1].crash_at = rng.uniform(1, 30)
    out.behaviours[1].crash_reason = FailureReason.STORAGE_UNAVAILABLE


def _store_denied(rng: random.Random, out: Schedule) -> None:
    """Only the operator cannot look, until the end of the longest hold."""
    out.behaviours[1] = Behaviour(trial_seconds=10)
    out.actions = [(rng.uniform(5, 50), "store-denied")]


def _head_lost(rng: random.Random, out: Schedule) -> None:
    out.behaviours[1] = Behaviour(trial_seconds=30)
    out.actions.append((rng.uniform(40, 120), "head-lost"))


def _out_of_memory(rng: random.Random, out: Schedule) -> None:
    """The kernel ends the head, or Ray's watch over its memory the driver."""
    out.behaviours[1] = Behaviour(trial_seconds=30)
    if rng.random() < 0.5:
        out.actions.append((rng.uniform(40, 120), "head-out-of-memory"))
    else:
        first = out.behaviours[1]
        first.crash_at, first.crash_code = rng.uniform(5, 60), rng.choice((137, -9))


def _name_taken(rng: random.Random, out: Schedule) -> None:
    """Recorded, not yet made, and its name is taken by a copy."""
    out.aimed.append(Aimed("put trainsweeps/status", 1, CRASH_AFTER))
    out.actions.append((0.9, "name-taken"))


def _late_delete(rng: random.Random, out: Schedule) -> None:
    """A delete that arrives when its name belongs to somebody else."""
    out.aimed.append(Aimed("delete rayjobs", 1, LATE))
    out.actions += [(0.1, "names-taken-later"), (rng.uniform(20, 90), rng.choice((*ENDINGS, "suspend-sweep")))]


def _late_repair(rng: random.Random, out: Schedule) -> None:
    """A repair that arrives there."""
    at = rng.uniform(20, 60)
    out.aimed.append(Aimed("patch rayjobs: owners", 1, LATE))
    out.actions += [(at, "hold-deleted"), (at + rng.uniform(6, 12), "rayjob-replaced")]


def _never_made(rng: random.Random, out: Schedule) -> None:
    """Never made, and deleted."""
    out.actions = [(0.0, "name-taken"), (rng.uniform(3, 15), rng.choice(ENDINGS))]


def _false_failed(rng: random.Random, out: Schedule) -> None:
    out.behaviours[1] = Behaviour(trial_seconds=60, crash_at=60.0)
    out.actions = [(rng.uniform(30, 70), "false-failed")]


def _adopted(rng: random.Random, out: Schedule) -> None:
    """Created again when its run is finished."""
    out.behaviours[1] = Behaviour(trial_seconds=5, startup_seconds=5)
    out.actions = [(rng.uniform(120, 250), "recreate")]


def _goal_reached(rng: random.Random, out: Schedule) -> None:
    out.behaviours[1] = Behaviour(trial_seconds=rng.choice((5, 20)), outcome=Outcome.GOAL_REACHED)


def _too_many_failed(rng: random.Random, out: Schedule) -> None:
    out.behaviours[1] = Behaviour(trial_seconds=rng.choice((5, 20)), outcome=Outcome.MAX_FAILED_TRIALS)


def _no_nodes(rng: random.Random, out: Schedule) -> None:
    """Nodes come too late, with a bound on the wait for them or without one."""
    if rng.random() < 0.7:
        out.spec["deadlines"]["queuedSeconds"] = rng.choice((30, 60))
    out.actions.insert(0, (0.0, "no-nodes-for-long"))


def _calendar(rng: random.Random, out: Schedule) -> None:
    """The end of a reservation, the total, a run or a trial: the driver's own clock first."""
    name = rng.choice(("notAfter", "totalSeconds", "runSeconds"))
    at = rng.choice((60, 120, 200))
    out.spec["deadlines"] = {"startupSeconds": 60, name: to_text(START + at) if name == "notAfter" else at}
    if rng.random() < 0.3:
        out.spec["deadlines"]["trialSeconds"] = 10
    out.behaviours[1] = Behaviour(trial_seconds=60, disobeys=rng.random() < 0.3)


def _budget(rng: random.Random, out: Schedule) -> None:
    """Used up in mid-run, across attempts, or while we are away: then the driver ends by its own count."""
    cpu = rng.choice((120, 240, 400))
    out.spec["budget"] = {"cpuHours": cpu * SECONDS_OF_CPU}
    out.behaviours[1] = Behaviour(trial_seconds=60)
    match rng.randrange(4):
        case 0:
            out.behaviours[1].crash_at = rng.uniform(10, 60)
        case 1:
            out.actions.append((rng.uniform(5, 40), "operator-away-long"))
        case 2:
            out.actions.append((rng.uniform(20, 100), "budget-raised"))
        case _:
            pass


def _stall(rng: random.Random, out: Schedule) -> None:
    """No trial reports any more, and the driver sees it."""
    out.spec["deadlines"] = {"startupSeconds": 200, "stallSeconds": 60}
    out.behaviours[1] = Behaviour(trial_seconds=60, stall_at=rng.uniform(20, 60))


def _hang(rng: random.Random, out: Schedule) -> None:
    """No heartbeat comes any more, or the driver does not see its own stall and cannot be told of it either."""
    out.spec["deadlines"] = {"startupSeconds": 200, "stallSeconds": 60}
    first = out.behaviours[1] = Behaviour(trial_seconds=60)
    if rng.random() < 0.7:
        first.hang_at = rng.uniform(20, 50)
    else:
        first.stall_at, first.blind, first.disobeys = rng.uniform(20, 50), True, True


def _silent_permanent(rng: random.Random, out: Schedule) -> None:
    reason = rng.choice((FailureReason.STORAGE_DENIED, FailureReason.INVALID_SWEEP, FailureReason.BAD_ENTRYPOINT))
    out.behaviours[1] = Behaviour(crash_at=rng.uniform(1, 10), crash_reason=reason, silent=True)


def _lost(rng: random.Random, out: Schedule) -> None:
    """What is owed goes after the receipt, again and again; the driver says so, or leaves only its exit code."""
    mends = rng.choice((0, 1))
    out.behaviours[1] = Behaviour(trial_seconds=5, spoils=5, mends=mends, silent=rng.random() < 0.5)
    out.spec["checkpoints"]["verify"]["onMissing"] = "Fail"


def _silent_lost(rng: random.Random, out: Schedule) -> None:
    """Lost before any receipt, and no word of it but the exit code."""
    out.behaviours[1] = Behaviour(
        crash_at=rng.uniform(10, 60), crash_reason=FailureReason.CHECKPOINTS_LOST, silent=True
    )


def _suspension(rng: random.Random, out: Schedule) -> None:
    out.behaviours[1] = Behaviour(trial_seconds=rng.choice((20, 60)), silent=rng.random() < 0.2)
    out.actions.append((rng.uniform(20, 100), "suspend-sweep"))


SCENES: dict[str, Scene] = {
    "backstop": Scene(_backstop, weight=3),
    "image without driver": Scene(_image_without_driver),
    "bad image": Scene(_bad_image),
    "store fails the driver": Scene(_store_fails_the_driver),
    "store denied": Scene(_store_denied),
    "head lost": Scene(_head_lost),
    "out of memory": Scene(_out_of_memory),
    "name taken": Scene(_name_taken),
    "late delete": Scene(_late_delete),
    "late repair": Scene(_late_repair),
    "never made": Scene(_never_made),
    "false Failed": Scene(_false_failed),
    "adopted": Scene(_adopted),
    "goal reached": Scene(_goal_reached, weight=2),
    "too many failed": Scene(_too_many_failed),
    "no nodes": Scene(_no_nodes, weight=2),
    "calendar": Scene(_calendar, weight=2),
    "budget": Scene(_budget, weight=2),
    "stall": Scene(_stall, weight=2),
    "hang": Scene(_hang, weight=3),
    "silent permanent": Scene(_silent_permanent, weight=2),
    "lost": Scene(_lost),
    "silent lost": Scene(_silent_lost, weight=2),
    "suspension": Scene(_suspension),
}
