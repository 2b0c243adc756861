"""The driver double: trains nothing, but heartbeats, settles, waits for the verdict, mends, stops, crashes or hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.store import BEST, TRIALS, Store
from trainsweep.contract import labels
from trainsweep.contract.documents import (
    ADOPTED,
    EXIT_FAILED,
    EXIT_FENCED,
    EXIT_NOT_VERIFIED,
    EXIT_OK,
    EXIT_PERMANENT,
    EXIT_STOPPED,
    Control,
    End,
    FailureReason,
    LastWord,
    Limits,
    Outcome,
    Phase,
    Progress,
)
from trainsweep.core.ends import Stop
from trainsweep.runtime.kube import POD
from trainsweep.runtime.pod_views import read_control

if TYPE_CHECKING:
    from tests.simulation.world import World

STEP = 5.0
GOOD = (Outcome.COMPLETED, Outcome.GOAL_REACHED)
PERMANENT = (
    FailureReason.BAD_ENTRYPOINT,
    FailureReason.STORAGE_DENIED,
    FailureReason.INVALID_SWEEP,
    FailureReason.INCOMPATIBLE,
)


def code_of(outcome: Outcome, reason: str = "", *, lost: bool = False) -> int:
    """The exit code of a driver, as `trainjobs.outcome` has it (a test compares them)."""
    if outcome is Outcome.FAILED:
        return EXIT_FENCED if reason == FailureReason.FENCED else EXIT_PERMANENT if reason in PERMANENT else EXIT_FAILED
    if outcome is Outcome.STOPPED:
        return EXIT_STOPPED
    if outcome in GOOD:
        return EXIT_NOT_VERIFIED if lost else EXIT_OK
    return EXIT_FAILED


@dataclass
class Behaviour:
    """What goes wrong in a driver; the default does everything right."""

    trial_seconds: float = 15.0
    startup_seconds: float = 8.0
    crash_at: float | None = None
    """Seconds after its start at which it dies."""
    crash_reason: FailureReason | None = None
    """What it says of it in end.json; None: it dies silently."""
    crash_code: int = EXIT_FAILED
    """With which it dies silently."""
    hang_at: float | None = None
    """From then on it neither beats nor listens."""
    stall_at: float | None = None
    """From then on no trial reports; it goes on beating."""
    blind: bool = False
    """It does not see its own stall."""
    silent: bool = False
    """It leaves no word, not even in its log: only its exit code."""
    disobeys: bool = False
    mends: int = 2
    forges: bool = False
    spoils: int = 0
    """How many of its receipts are followed by a loss of what they promise."""
    dies: str = ""
    """`waiting`: silently, waiting for its verdict; `told`: after it, before the last word; `head`: with its pod."""
    outcome: Outcome = Outcome.COMPLETED
    says: str = ""
    """What the end of its log says, which KubeRay copies."""

    @property
    def endless(self) -> bool:
        """Whether only a limit of the sweep's ends it."""
        return self.hang_at is not None or self.stall_at is not None


OWN_BEHAVIOUR = range(1, 6)
"""Attempts whose drivers may behave badly; all later ones do everything right."""


@dataclass
class Driver:
    """One driver on one head pod."""

    world: World
    store: Store
    attempt: str
    pod: str
    pod_uid: str
    timeout: float
    tolerant: bool
    """onMissing: Warn."""
    limits: Limits
    how: Behaviour
    started: float
    state: str = "RUNNING"
    phase: Phase = Phase.STARTING
    outcome: Outcome | None = None
    reason: str = ""
    code: int = EXIT_OK
    said: LastWord | None = None
    """Its last line, at the end of its log."""
    receipt: str = ""
    waits_until: float = 0.0
    busy_until: float = 0.0
    mended: int = 0
    term: bool = False
    trial_ends: float = 0.0
    reported: float | None = None
    stepped: float | None = None
    """When a trial has reported last."""
    used: float = 0.0
    """CPU-seconds by its own count: Ray knows of the workers' CPUs only."""
    log: list[str] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.state == "RUNNING"

    def begin(self) -> None:
        """The fence: a start marker of this attempt means that another driver of it has run."""
        if self.attempt in self.store.started or self.store.fences(self.attempt):
            self._exit(Outcome.FAILED, FailureReason.FENCED)
            return
        self.store.started[self.attempt] = self.world.now
        self.trial_ends = self.started + self.how.startup_seconds + self.how.trial_seconds
        self.world.at(self.world.now + STEP, self.tick)

    def kill(self) -> None:
        """Its pod is gone."""
        if self.alive:
            self.state = "KILLED"
            self.world.note(f"driver {self.attempt} is killed")

    def tick(self) -> None:
        if not self.alive:
            return
        if self._hung():
            self.world.at(self.world.now + STEP, self.tick)
            return
        self._step()
        if self.alive:
            self._beat()
            self.world.at(self.world.now + STEP, self.tick)

    def _hung(self) -> bool:
        return self.how.hang_at is not None and self.world.now >= self.started + self.how.hang_at

    def _control(self) -> Control | None:
        pod = self.world.server.find(POD, self.pod)
        if pod is None or pod["metadata"]["uid"] != self.pod_uid:
            return None
        found = read_control((pod["metadata"].get("annotations") or {}).get(labels.CONTROL))
        return found if found is not None and found.attempt_id == self.attempt else None

    def _step(self) -> None:
        now = self.world.now
        if self.how.crash_at is not None and now >= self.started + self.how.crash_at:
            if self.how.crash_reason is None:
                self._killed(self.how.crash_code)
            else:
                lost = self.how.crash_reason is FailureReason.CHECKPOINTS_LOST
                self._exit(Outcome.COMPLETED if lost else Outcome.FAILED, self.how.crash_reason, lost=lost)
            return
        if self.store.fences(self.attempt):
            self._exit(Outcome.FAILED, FailureReason.FENCED)
            return
        control = self._control()
        if self.outcome is None:
            self._train(now, control)
        elif self.phase is Phase.WAITING_FOR_VERDICT:
            self._wait(now, control)
        elif now >= self.busy_until:
            self._settle(now)

    def _train(self, now: float, control: Control | None) -> None:
        if control is not None and control.limits is not None:
            self.limits = control.limits
        if not self.how.disobeys and (asked := self._asked(now, control)) is not None:
            self._finish_training(*asked, now)
            return
        if now < self.started + self.how.startup_seconds:
            return
        if self.store.done >= TRIALS and self.phase is Phase.STARTING:
            # Nothing is left to train; what other sweeps of this name have trained is adopted.
            adopted = self.store.adopted(self.attempt) and self.how.outcome in GOOD
            self._finish_training(self.how.outcome, ADOPTED if adopted else "", now)
            return
        self.phase = Phase.RUNNING
        self.used += STEP
        if self.how.stall_at is not None and now >= self.started + self.how.stall_at and self.stepped is not None:
            return
        if self.reported is None:
            self.reported = now
        self.stepped = now
        self.store.committed = True
        self.store.written_at = now
        self.store.writers.add(self.attempt[-8:])
        if self.store.done < TRIALS and now >= self.trial_ends:
            self.store.done += 1
            self.trial_ends = now + min(self.how.trial_seconds, self.limits.trial_seconds or self.how.trial_seconds)
        if self.store.done >= TRIALS:
            self._finish_training(self.how.outcome, "", now)

    def _asked(self, now: float, control: Control | None) -> tuple[Outcome, str] | None:
        """Whether it has to end now, by a stop, a signal or a limit of its own, and what it says of it."""
        limits, stall = self.limits, self.limits.stall_seconds
        if control is not None and control.stop is not None:
            return Outcome.STOPPED, control.stop.reason
        if self.term:
            return Outcome.STOPPED, "Signal"
        if limits.deadline_at is not None and now >= limits.deadline_at:
            return Outcome.DEADLINE_EXCEEDED, "DeadlineExceeded"
        if limits.cpu_seconds is not None and self.used >= limits.cpu_seconds:
            return Outcome.BUDGET_EXCEEDED, "BudgetExceeded"
        if stall is not None and self.stepped is not None and now - self.stepped >= stall and not self.how.blind:
            return Outcome.STOPPED, Stop.STALL_DEADLINE
        return None

    def _finish_training(self, outcome: Outcome, reason: str, now: float) -> None:
        self.outcome, self.reason, self.phase = outcome, str(reason), Phase.SETTLING
        self.busy_until = now + 3

    def _settle(self, now: float) -> None:
        """Its own look; what is missing is mended before a receipt is written."""
        if not self.store.readable(now):
            self.busy_until = now + STEP
            if now > self.started + 3000:
                self._exit(Outcome.FAILED, FailureReason.STORAGE_UNAVAILABLE)
            return
        if self.store.damaged and self.store.committed:
            if self.mended < self.how.mends and not self.term:
                self.mended += 1
                self.phase, self.store.damaged, self.busy_until = Phase.MENDING, False, now + 10
                return
            if self.outcome in GOOD and not self.tolerant:
                self._exit(self.outcome, FailureReason.CHECKPOINTS_LOST, lost=True)
                return
            if self.receipt:
                self._exit(self.outcome or Outcome.FAILED, self.reason)
                return
        assert self.outcome is not None
        self.receipt = self.store.write_receipt(
            self.attempt, self.outcome, now, reason=self.reason, forged=self.how.forges
        )
        self.phase, self.waits_until = Phase.WAITING_FOR_VERDICT, now + self.timeout
        if self.how.spoils > 0:
            self.how.spoils -= 1
            self.store.damaged = True

    def _wait(self, now: float, control: Control | None) -> None:
        verdict = control.verdict if control is not None else None
        assert self.outcome is not None
        told = verdict is not None and verdict.receipt_digest == self.receipt
        if self.how.dies == "waiting" or (self.how.dies == "told" and told):
            self._killed(EXIT_FAILED)
            return
        if self.how.dies == "head":
            self.world.server.remove(POD, self.pod)
            self.kill()
            return
        if verdict is not None and verdict.receipt_digest == self.receipt:
            if verdict.result == "Persisted":
                self._exit(self.outcome, self.reason, verified=True)
            else:
                self.phase, self.busy_until = Phase.SETTLING, now
                self.store.damaged = True  # what the operator found missing is missing
        elif now >= self.waits_until:
            self._exit(self.outcome, self.reason)

    def _killed(self, code: int) -> None:
        """Its process dies without a word."""
        self.state, self.code, self.phase = "FAILED", code, Phase.ENDED
        self.world.note(f"driver {self.attempt} dies with exit code {code}")

    def _exit(self, outcome: Outcome, reason: str = "", *, lost: bool = False, verified: bool = False) -> None:
        """Ends with a last word: in the store, if it may write there, and at the end of its log."""
        self.code, self.phase = code_of(outcome, reason, lost=lost), Phase.ENDED
        self.state = "SUCCEEDED" if self.code == EXIT_OK else "FAILED"
        if lost:
            outcome = Outcome.FAILED
        self.world.note(f"driver {self.attempt} exits {self.code} {outcome} {reason}{' silently' * self.how.silent}")
        if self.how.silent:
            return
        self.said = LastWord(outcome=outcome, reason=str(reason))
        fenced = reason == FailureReason.FENCED
        if not fenced and self.store.readable(self.world.now) and self.attempt not in self.store.ends:
            self.store.ends[self.attempt] = End(
                attempt_id=self.attempt,
                outcome=outcome,
                reason=str(reason),
                ended_at=self.world.now,
                verified=verified,
                exit_code=self.code,
            )
            self._beat()

    def _beat(self) -> None:
        if not self.store.readable(self.world.now):
            return
        fields: dict[str, Any] = {
            "attempt_id": self.attempt,
            "phase": self.phase,
            "heartbeat_at": self.world.now,
            "first_report_at": self.reported,
            "last_step_at": self.stepped,
            "trials": self.store.counts(2),
            "best": BEST if self.store.committed else None,
            "receipt_digest": self.receipt or None,
        }
        self.store.progress = Progress(**fields)
