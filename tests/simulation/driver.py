"""The driver double: trains nothing, but heartbeats, settles, waits for the verdict, mends, stops, crashes or hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.store import BEST, TRIALS, Store
from trainsweep.contract import labels
from trainsweep.contract.documents import Control, End, FailureReason, Outcome, Phase, Progress
from trainsweep.contract.layout import parse_attempt_id
from trainsweep.runtime.kube import POD
from trainsweep.runtime.pod_views import read_control

if TYPE_CHECKING:
    from tests.simulation.world import World

STEP = 5.0


@dataclass
class Behaviour:
    """What goes wrong in a driver; the default does everything right."""

    trial_seconds: float = 15.0
    startup_seconds: float = 8.0
    crash_at: float | None = None
    """Seconds after its start at which it dies."""
    crash_reason: FailureReason | None = None
    """What it says of it in end.json; None: it dies silently."""
    hang_at: float | None = None
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
    deadline: float | None
    how: Behaviour
    started: float
    state: str = "RUNNING"
    phase: Phase = Phase.STARTING
    outcome: Outcome | None = None
    receipt: str = ""
    waits_until: float = 0.0
    busy_until: float = 0.0
    mended: int = 0
    term: bool = False
    trial_ends: float = 0.0
    reported: float | None = None
    log: list[str] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.state == "RUNNING"

    def begin(self) -> None:
        """The fence: a start marker of this attempt means that another driver of it has run."""
        if self.attempt in self.store.started:
            self._exit(Outcome.FAILED, FailureReason.FENCED, ok=False, word=False)
            return
        self.store.started.add(self.attempt)
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
            self._exit(Outcome.FAILED, self.how.crash_reason, ok=False, word=self.how.crash_reason is not None)
            return
        number = (parse_attempt_id(self.attempt) or (0, ""))[0]
        if self.attempt[-8:] == self.world.uid8() and self.store.newest() > number:
            self._exit(Outcome.FAILED, FailureReason.FENCED, ok=False)
            return
        control = self._control()
        if self.outcome is None:
            self._train(now, control)
        elif self.phase is Phase.WAITING_FOR_VERDICT:
            self._wait(now, control)
        elif now >= self.busy_until:
            self._settle(now)

    def _train(self, now: float, control: Control | None) -> None:
        asked = (control is not None and control.stop is not None) or self.term
        if asked and not self.how.disobeys:
            self._finish_training(Outcome.STOPPED, now)
            return
        if control is not None and control.limits is not None:
            self.deadline = control.limits.deadline_at
        if self.deadline is not None and now >= self.deadline and not self.how.disobeys:
            self._finish_training(Outcome.DEADLINE_EXCEEDED, now)
            return
        if now < self.started + self.how.startup_seconds:
            return
        self.phase = Phase.RUNNING
        if self.reported is None:
            self.reported = now
        self.store.committed = True
        self.store.written_at = now
        if self.store.done < TRIALS and now >= self.trial_ends:
            self.store.done += 1
            self.trial_ends = now + self.how.trial_seconds
        if self.store.done >= TRIALS:
            self._finish_training(self.how.outcome, now)

    def _finish_training(self, outcome: Outcome, now: float) -> None:
        self.outcome, self.phase = outcome, Phase.SETTLING
        self.busy_until = now + 3

    def _settle(self, now: float) -> None:
        """Its own look; what is missing is mended before a receipt is written."""
        if not self.store.readable(now):
            self.busy_until = now + STEP
            if now > self.started + 3000:
                self._exit(Outcome.FAILED, FailureReason.STORAGE_UNAVAILABLE, ok=False, word=False)
            return
        if self.store.damaged and self.store.committed:
            good = self.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED)
            if self.mended < self.how.mends and not self.term:
                self.mended += 1
                self.phase, self.store.damaged, self.busy_until = Phase.MENDING, False, now + 10
                return
            if good and not self.tolerant:
                self._exit(Outcome.FAILED, FailureReason.CHECKPOINTS_LOST, ok=False)
                return
            if self.receipt:
                self._exit(self.outcome or Outcome.FAILED, None, ok=good)
                return
        assert self.outcome is not None
        self.receipt = self.store.write_receipt(self.attempt, self.outcome, now, forged=self.how.forges)
        self.phase, self.waits_until = Phase.WAITING_FOR_VERDICT, now + self.timeout
        if self.how.spoils > 0:
            self.how.spoils -= 1
            self.store.damaged = True

    def _wait(self, now: float, control: Control | None) -> None:
        verdict = control.verdict if control is not None else None
        assert self.outcome is not None
        good = self.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED)
        told = verdict is not None and verdict.receipt_digest == self.receipt
        if self.how.dies == "waiting" or (self.how.dies == "told" and told):
            self._exit(Outcome.FAILED, None, ok=False, word=False)
            return
        if self.how.dies == "head":
            self.world.server.remove(POD, self.pod)
            self.kill()
            return
        if verdict is not None and verdict.receipt_digest == self.receipt:
            if verdict.result == "Persisted":
                self._exit(self.outcome, None, ok=good, verified=True)
            else:
                self.phase, self.busy_until = Phase.SETTLING, now
                self.store.damaged = True  # what the operator found missing is missing
        elif now >= self.waits_until:
            self._exit(self.outcome, None, ok=good)

    def _exit(
        self, outcome: Outcome, reason: FailureReason | None, *, ok: bool, verified: bool = False, word: bool = True
    ) -> None:
        self.state = "SUCCEEDED" if ok else "FAILED"
        self.phase = Phase.ENDED
        self.world.note(f"driver {self.attempt} exits {self.state} {outcome} {reason or ''}")
        if word and self.store.readable(self.world.now) and self.attempt not in self.store.ends:
            self.store.ends[self.attempt] = End(
                attempt_id=self.attempt,
                outcome=outcome,
                reason=str(reason or ""),
                ended_at=self.world.now,
                verified=verified,
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
            "trials": self.store.counts(2),
            "best": BEST if self.store.committed else None,
            "receipt_digest": self.receipt or None,
        }
        self.store.progress = Progress(**fields)
