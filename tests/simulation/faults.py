"""Which call of the operator fails, and how: by chance, by number, or aimed at one kind of call that apply() makes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from trainsweep.core.model import FINALIZER
from trainsweep.runtime.kube import RAY_JOB, SWEEP, Kind

CRASH_BEFORE, CRASH_AFTER, ERROR, CONFLICT, LOST_REPLY = (
    "crash before",
    "crash after",
    "error",
    "conflict",
    "lost reply",
)
LATE = "late"
"""The client gives up, and the server carries the call out all the same, some time later."""
FAULTS = (CRASH_BEFORE, CRASH_AFTER, ERROR, CONFLICT, LOST_REPLY)
CRASHES = (CRASH_BEFORE, CRASH_AFTER)
WRITES = (
    "patch trainsweeps: finalizer on",
    "patch trainsweeps: finalizer off",
    "put trainsweeps/status",
    "create trainsweepholds",
    "create rayjobs",
    "patch rayjobs: lease",
    "patch rayjobs: backstop",
    "patch rayjobs: owners",
    "patch pods: control",
    "delete rayjobs",
    "delete rayclusters",
    "delete trainsweepholds",
    "create events",
)
READS = ("get trainsweepholds", "get rayjobs")
CELLS = tuple((io, f) for io in WRITES for f in FAULTS) + tuple(
    (io, f) for io in READS for f in FAULTS if f != CONFLICT
)
"""Every call that apply() makes, with every way in which it can fail; a read has nothing that could conflict."""

APPLYING: ContextVar[bool] = ContextVar("applying", default=False)
"""Set while apply() runs: its calls are counted apart from those of observe(), of the resync and of the orphans."""


def name_of(verb: str, kind: Kind, body: Mapping[str, Any] | None = None) -> str:
    """The name of a call in `WRITES` and `READS`."""
    plain = f"{verb} {kind.plural}"
    if verb != "patch" or body is None:
        return "put trainsweeps/status" if verb == "put" else plain
    if kind is SWEEP:
        return f"{plain}: finalizer {'on' if FINALIZER in (body['metadata'].get('finalizers') or ()) else 'off'}"
    if kind is RAY_JOB:
        spec = body.get("spec") or {}
        fields = {"ttlSecondsAfterFinished": "lease", "activeDeadlineSeconds": "backstop"}
        return f"{plain}: " + ("owners" if not spec else "+".join(sorted(fields.get(f, f) for f in spec)))
    return f"{plain}: control"


@dataclass
class Odds:
    """Chances of a fault at each call."""

    crash: float = 0.0
    error: float = 0.0
    lost_reply: float = 0.0
    conflict: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    """That a call takes seconds."""


@dataclass(frozen=True)
class Strike:
    """A fault at the n-th call of the whole life, whatever it is."""

    at: int
    fault: str


@dataclass(frozen=True)
class Aimed:
    """A fault at the n-th call of that name in apply()."""

    io: str
    nth: int
    fault: str


@dataclass
class Faults:
    """Draws the fault of each call, and counts."""

    odds: Odds
    strikes: tuple[Strike, ...] = ()
    aimed: tuple[Aimed, ...] = ()
    stopped: bool = False
    steps: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    """Calls by name that apply() has made."""
    hit: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Faults by name of the call of apply() and kind."""
    made: Counter[str] = field(default_factory=Counter)
    """All faults by kind, also those of reads and those that happened to the world."""

    @property
    def crashes(self) -> int:
        """How often a process was killed."""
        return sum(self.made[f] for f in (*CRASHES, "killed"))

    def draw(self, io: str, rng: random.Random, *, write: bool) -> str:
        """The fault of one call, "" for none."""
        self.steps += 1
        applying = APPLYING.get()
        if applying:
            self.seen[io] += 1
        if self.stopped:
            return ""
        found = self._draw(io, rng, applying, write)
        if not write:
            found = {CONFLICT: ERROR, LATE: LOST_REPLY}.get(found, found)
        if found:
            self.made[found] += 1
            if applying:
                self.hit[io, found] += 1
        return found

    def _draw(self, io: str, rng: random.Random, applying: bool, write: bool) -> str:
        struck = next((s.fault for s in self.strikes if s.at == self.steps), "")
        if struck:
            return struck
        if applying:
            nth = self.seen[io]
            hit = next((a.fault for a in self.aimed if a.io == io and a.nth == nth), "")
            if hit:
                return hit
        odds, chance = self.odds, rng.random()
        for fault, share in (
            (CRASH_BEFORE, odds.crash),
            (CRASH_AFTER, odds.crash),
            (ERROR, odds.error),
            (LOST_REPLY, odds.lost_reply),
            (CONFLICT, odds.conflict),
            (LATE, odds.late),
        ):
            if chance < share:
                return fault if write or fault not in (CONFLICT, LATE) else ""
            chance -= share
        return ""
