"""From a seed to a schedule: faults, what people do, how drivers behave. All of it ends at the horizon."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tests.simulation.actions import ACTIONS, CLUSTER, ENDINGS, OPERATOR, PEOPLE
from tests.simulation.driver import OWN_BEHAVIOUR, Behaviour
from tests.simulation.faults import (
    CELLS,
    CONFLICT,
    CRASHES,
    ERROR,
    FAULTS,
    LATE,
    Aimed,
    Faults,
    Odds,
    Strike,
)
from tests.simulation.scenes import SCENES
from tests.simulation.world import SPEC, START, World
from trainsweep.contract.documents import FailureReason, Outcome

HORIZON = 500.0
STRUCK = 25
"""The calls among which every life has three faults."""
STAGED, ALONE = 0.6, 0.5
"""Share of the lives with faults of all kinds that play one of the scenes, and of those in which little else happens."""
BOUNDS = {"runSeconds", "totalSeconds", "notAfter", "stallSeconds"}
ENDS_AFTER = 30
"""No sweep is deleted or suspended, and no operator goes, before so many calls: such a life would be told in a line."""


@dataclass
class Schedule:
    """What a seed means, in words that a failure prints."""

    seed: int
    profile: str
    spec: dict[str, Any]
    odds: Odds
    lost_watch: float = 0.0
    scene: str = ""
    """One of `SCENES`, if it plays one."""
    skew: float = 0.0
    """Seconds by which the clocks of two operator processes may differ."""
    strikes: list[Strike] = field(default_factory=list)
    aimed: list[Aimed] = field(default_factory=list)
    actions: list[tuple[float, str]] = field(default_factory=list)
    behaviours: dict[int, Behaviour] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"  {at:7.1f} {what}" for at, what in self.actions]
        said += [f"  call {s.at}: {s.fault}" for s in self.strikes]
        said += [f"  {a.io} #{a.nth}: {a.fault}" for a in self.aimed]
        said += [f"  driver of attempt {n}: {b}" for n, b in self.behaviours.items() if b != Behaviour()]
        changed = {k: v for k, v in self.spec.items() if v != SPEC.get(k)}
        head = f"seed {self.seed}, profile {self.profile} {self.scene}, lost watch {self.lost_watch}, skew {self.skew}"
        return "\n".join([head, f"  {self.odds}", f"  {changed}", *said])


PROFILES = ("operator", "cluster", "people", "all")


def draw(seed: int) -> Schedule:
    """The schedule of a seed. Profile `operator` has faults of the operator and its calls only."""
    rng = random.Random(seed)  # noqa: S311  # a schedule, no secret
    profile = rng.choice(PROFILES)
    spec = copy.deepcopy(SPEC)
    odds = Odds(slow=0.05)
    if profile in ("operator", "all") or rng.random() < 0.3:
        odds = Odds(
            crash=rng.choice((0.0, 0.005, 0.02)),
            error=rng.choice((0.0, 0.02, 0.1)),
            lost_reply=rng.choice((0.0, 0.02, 0.1)),
            conflict=rng.choice((0.0, 0.05, 0.2)),
            late=rng.choice((0.0, 0.0, 0.02)),
            slow=rng.choice((0.0, 0.05, 0.2)),
        )
    out = Schedule(seed, profile, spec, odds, rng.choice((0.0, 0.0, 0.3)), skew=rng.choice((0.0, 0.0, 40.0)))
    out.behaviours = {n: _behaviour(rng, profile) for n in OWN_BEHAVIOUR}
    if profile == "operator":
        spec["deadlines"] = {"startupSeconds": 3600}  # an operator that is long away would overrun a short one
    else:
        _settings(rng, spec, out)
        names = CLUSTER if profile == "cluster" else PEOPLE if profile == "people" else [*CLUSTER, *PEOPLE]
        for _ in range(rng.choice((1, 1, 2, 3, 4))):
            out.actions.append((rng.uniform(0, rng.choice((100, 200, 400))), rng.choice(names)))
    for _ in range(rng.choice((0, 0, 1, 2))):
        out.actions.append((rng.uniform(0, 200), rng.choice(OPERATOR)))
    if profile != "operator" and rng.random() < STAGED:
        out.scene = rng.choices(tuple(SCENES), [scene.weight for scene in SCENES.values()])[0]
        if rng.random() < ALONE:
            out.actions, out.behaviours[1] = [], Behaviour()
            spec["deadlines"] = dict(SPEC["deadlines"])
        SCENES[out.scene].play(rng, out)
    _aim(rng, out)
    _strike(rng, out)
    if any(b.endless for b in out.behaviours.values()) and not BOUNDS & spec["deadlines"].keys():
        spec["deadlines"]["runSeconds"] = 300  # nothing else ends a driver that hangs
    out.actions.sort()
    return out


def _aim(rng: random.Random, out: Schedule) -> None:
    """Faults at calls of apply(), each as likely as the other; what makes a rare call be made is added."""
    for _ in range(rng.choice((2, 3, 4))):
        io, fault = rng.choice(CELLS)
        if fault == ERROR and rng.random() < 0.2:
            fault = LATE
        often = 6 if io in ("put trainsweeps/status", "create events") else 2
        out.aimed.append(Aimed(io, rng.randint(1, often), fault))
        if out.profile == "operator":
            continue
        match io:
            case "patch rayjobs: owners" | "get rayjobs":
                out.actions.append((rng.uniform(10, 120), "hold-deleted"))
            case "patch rayjobs: backstop":
                if out.spec["deadlines"].get("totalSeconds", 300) >= 300:
                    out.spec["deadlines"]["runSeconds"] = 300
                out.actions.append((rng.uniform(10, 120), "deadline-raised"))
            case "get trainsweepholds":
                out.aimed.append(Aimed("create trainsweepholds", out.aimed[-1].nth, CONFLICT))
            case "delete rayclusters":
                out.actions.append((rng.uniform(10, 120), "rayjob-orphaned"))
            case "delete rayjobs":
                out.actions.append((rng.uniform(10, 200), rng.choice(ENDINGS)))
            case _:
                pass


def _strike(rng: random.Random, out: Schedule) -> None:
    """One crash and two more faults at least, early enough to happen whatever else does."""
    places = rng.sample(range(2, STRUCK), 3)
    faults = [rng.choice(CRASHES), *(rng.choice((*FAULTS, ERROR, LATE)) for _ in range(2))]
    out.strikes = [Strike(at, fault) for at, fault in zip(places, faults, strict=True)]


def _settings(rng: random.Random, spec: dict[str, Any], out: Schedule) -> None:
    if rng.random() < 0.4:
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


# ---------------------------------------------------------------------------------------------------- its way into a world


def world_of(schedule: Schedule) -> World:
    """A world in which the schedule is going to happen; at the horizon every fault stops."""
    faults = Faults(schedule.odds, tuple(schedule.strikes), tuple(schedule.aimed))
    rng = random.Random(f"{schedule.seed}/world")  # noqa: S311  # a schedule, no secret
    world = World(rng, copy.deepcopy(schedule.spec), faults)
    world.busy = random.Random(f"{schedule.seed}/busy")  # noqa: S311  # a schedule, no secret
    world.lost_watch, world.skew = schedule.lost_watch, schedule.skew
    drivers = {n: replace(b) for n, b in schedule.behaviours.items()}
    world.behave = lambda n: drivers.get(n, Behaviour()) if world.now < START + HORIZON else Behaviour()

    def act(what: str) -> Callable[[], None]:
        def now() -> None:
            early = faults.steps < ENDS_AFTER and not faults.stopped
            if early and what in (*ENDINGS, "suspend-sweep", "operator-away", "operator-away-long"):
                world.at(world.now + 3.0, now)
                return
            world.note(f"*** {what}")
            faults.made[what] += 1
            ACTIONS[what](world)

        return now

    for at, what in schedule.actions:
        world.at(START + at, act(what))

    def last_crash() -> None:
        if not faults.crashes:
            world.kill_operator(1.0)

    def stop() -> None:
        world.note("*** faults stop")
        faults.stopped, world.lost_watch = True, 0.0
        world.others_let_go()

    world.at(START + HORIZON - 60, last_crash)  # of a life with so few calls that no strike has come to pass
    world.at(START + HORIZON, stop)
    return world


def to_json(schedule: Schedule) -> dict[str, Any]:
    """For the list of kept schedules."""
    return asdict(schedule)


def from_json(data: dict[str, Any]) -> Schedule:
    """The schedule as it was written."""
    return Schedule(
        **{
            **data,
            "odds": Odds(**data["odds"]),
            "strikes": [Strike(**s) for s in data["strikes"]],
            "aimed": [Aimed(**a) for a in data["aimed"]],
            "actions": [(float(at), str(what)) for at, what in data["actions"]],
            "behaviours": {int(n): behaviour_from(b) for n, b in data["behaviours"].items()},
        }
    )


def behaviour_from(data: dict[str, Any]) -> Behaviour:
    """A driver's behaviour as it was written."""
    reason, outcome = data.get("crash_reason"), data.get("outcome", Outcome.COMPLETED)
    return Behaviour(**{**data, "crash_reason": reason and FailureReason(reason), "outcome": Outcome(outcome)})
