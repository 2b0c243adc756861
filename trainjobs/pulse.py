"""The driver's second thread: heartbeat, control file, fence, deadline, stop, log shipping.

It decides nothing about trials. An unreadable store is not a failure: the beat is tried again, training goes on.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainjobs import fence
from trainjobs.control import ControlFile
from trainjobs.flags import Flags
from trainjobs.limits import Meter, limits_of
from trainjobs.logs import Tail
from trainjobs.outcome import DriverError
from trainjobs.records import Records
from trainjobs.settle import best_reported
from trainjobs.store import Store, StoreError
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import (
    EXIT_FENCED,
    MAX_RUNNING,
    Best,
    Outcome,
    Phase,
    Progress,
    RunningTrial,
    Verdict,
)

logger = logging.getLogger(__name__)

POLL, BEAT, SHIP = 0.5, 5.0, 30.0
PROGRESS_LIMIT = 4096


@dataclass(frozen=True)
class Stop:
    """Why this attempt ends before its trials did."""

    outcome: Outcome
    reason: str
    grace: float
    at: float
    """Monotonic time of the request."""


def stop_before(deadline: float, started: float, grace: float) -> float:
    """When a stop must begin for the driver to have ended well by its deadline (Unix seconds).

    Grace for the loops and half a minute for the settlement, but never more than half of the whole time.
    """
    return max(deadline - grace - 30.0, started + (deadline - started) / 2)


def progress_bytes(progress: Progress) -> bytes:
    """The document within its limit: the operator reads no more than 4 KiB.

    What can be looked up elsewhere goes first: the parameters of the best trial, the trials that run, the message's end.
    """
    best = progress.best and progress.best.model_copy(update={"parameters": {}})
    smaller: dict[str, object] = {}
    data = progress.to_json()
    for change in (
        {"best": best},
        {"running": progress.running[:4], "message": progress.message[:200]},
        {"running": [], "message": progress.message[:100]},
        {"best": None, "message": ""},
    ):
        if len(data) <= PROGRESS_LIMIT:
            break
        smaller |= change
        data = progress.model_copy(update=smaller).to_json()
    return data


class Pulse:
    """The thread and what it knows. Fields are set by the main thread and read here, or the other way round."""

    def __init__(
        self,
        sweep: Sweep,
        store: Store,
        records: Records,
        control: ControlFile,
        flags: Flags,
        tail: Tail,
    ) -> None:
        self._sweep, self._store, self._records = sweep, store, records
        self._control, self._flags, self._tail = control, flags, tail
        self._started = time.time()
        self.limits = limits_of(sweep)
        """What holds now: of the sweep file, or of the last control document."""
        self.meter = Meter()
        self._end = threading.Event()
        self._beat_now = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self.signal = threading.Event()
        """Set by the signal handlers."""
        self.phase, self.message = Phase.STARTING, ""
        self.receipt_digest: str | None = None
        self.best: Best | None = None
        self.stop: Stop | None = None
        self.fenced: DriverError | None = None
        self.verdict: Verdict | None = None
        self.watch: Any = None
        """The running Tune's Watch."""
        self.raise_flag: Callable[[], None] | None = None
        """Raises the loops' stop flag."""
        self.waits: Callable[[], None] | None = None
        """Called when the driver has nothing to do but wait."""
        self.concurrent = 1
        self._flag_raised = False

    def start(self) -> None:
        """Starts the thread; the first beat is written before this returns."""
        self._beat()
        self._thread.start()

    def enter(self, phase: Phase, message: str = "") -> None:
        """A new phase: said in the next poll."""
        logger.info("%s %s", phase.value, message)
        self.phase, self.message = phase, message[:1000]
        self._beat_now.set()
        if phase is Phase.WAITING_FOR_VERDICT and self.waits is not None:
            self.waits()

    def close(self) -> None:
        """Ends the thread after a last beat and a last shipment of the log."""
        self._end.set()
        self._thread.join(timeout=60)
        if self.fenced is None:
            self._guarded(self._beat)
            self._guarded(self._ship)

    def _run(self) -> None:
        last_beat = last_ship = time.monotonic()
        while not self._end.wait(POLL):
            self._guarded(self._listen)
            now = time.monotonic()
            if self._beat_now.is_set() or now - last_beat >= BEAT:
                self._beat_now.clear()
                self._guarded(self.meter.count)
                last_beat = now
                self._guarded(self._fence)
                if self.fenced is None:
                    self._guarded(self._beat)
            if now - last_ship >= SHIP and self.fenced is None:
                last_ship = now
                self._guarded(self._ship)

    def _guarded(self, act: Callable[[], None]) -> None:
        """A fault in one beat must end neither the thread nor the training."""
        try:
            act()
        except StoreError as error:
            logger.warning("the store: %s", error.message)
        except Exception:
            logger.exception("a fault in the heartbeat")

    def _fence(self) -> None:
        try:
            fence.check(self._store, self._sweep.file.attempt_id)
        except StoreError:
            raise
        except DriverError as error:
            self.fenced = error
            logger.error("%s", error)
            if self.watch is not None:
                self.watch.stop.set()
            # The main thread may hang in something that this very partition broke.
            killer = threading.Timer(30.0, os._exit, args=(EXIT_FENCED,))
            killer.daemon = True
            killer.start()

    def _request(self, outcome: Outcome, reason: str, grace: float) -> None:
        if self.stop is None:
            logger.warning("stopping: %s (%s), grace %.0f s", outcome, reason, grace)
            self.stop = Stop(outcome, reason, grace, time.monotonic())
            if self.phase in (Phase.STARTING, Phase.RUNNING):
                self.enter(Phase.STOPPING, reason)

    def _listen(self) -> None:
        own_grace = float(self._sweep.spec.cleanup.stop_grace_seconds)
        control = self._control.read()
        if control is not None:
            self.verdict = control.verdict
            if control.limits is not None and control.limits != self.limits:
                logger.info("limits: %s", control.limits.to_json().decode())
                self.limits = control.limits
            if control.stop is not None:
                self._request(Outcome.STOPPED, control.stop.reason, control.stop.grace_seconds)
        if self._flags.stop_requested():
            self._request(Outcome.STOPPED, "PreStop", own_grace)
        if self.signal.is_set():
            # Ray kills a job's driver this long after its SIGTERM: most of it belongs to the settlement.
            limit = float(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", "30")) / 3
            self._request(Outcome.STOPPED, "Signal", min(own_grace, limit))
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            self._keep_limits(own_grace)
        self._pursue()

    def _keep_limits(self, grace: float) -> None:
        """The driver's own deadlines and budget, while it trains: it ends well, before the operator has to ask."""
        limits, now = self.limits, time.time()
        if self.watch is not None:
            self.watch.trial_seconds = limits.trial_seconds
        if limits.deadline_at is not None and now >= stop_before(limits.deadline_at, self._started, grace):
            self._request(Outcome.DEADLINE_EXCEEDED, "DeadlineExceeded", grace)
        elif self.meter.over(limits):
            self._request(Outcome.BUDGET_EXCEEDED, "BudgetExceeded", grace)
        elif self._stalled(now):
            self._request(Outcome.STOPPED, "StallDeadlineExceeded", grace)

    def _stalled(self, now: float) -> bool:
        """Whether no trial has reported or started for too long; before the first report it is a matter of startup."""
        limit, watch = self.limits.stall_seconds, self.watch
        if limit is None or watch is None or watch.first_report_at is None or watch.last_step_at is None:
            return False
        return self.phase is Phase.RUNNING and now - float(watch.last_step_at) >= limit

    def _pursue(self) -> None:
        """Carries a stop through: the flag first, Tune's end once the loops have reported or the grace is over."""
        stop, watch = self.stop, self.watch
        if stop is None or watch is None:
            return
        watch.stopping.set()
        if not self._flag_raised and self.raise_flag is not None:
            self.raise_flag()
            self._flag_raised = True
        running = [r.index for r in self._records if r.state == "Running"]
        waiting = [i for i in running if watch.reported.get(i, -math.inf) < stop.at and i in watch.active]
        if not waiting or time.monotonic() - stop.at >= stop.grace:
            watch.stop.set()

    def best_now(self) -> Best | None:
        """The best report: as settled, or as far as it is known."""
        checkpoints = self.watch.checkpoints if self.watch is not None else {}
        return self.best or best_reported(self._records, self._sweep.mode, checkpoints)

    def eta(self) -> float | None:
        """Seconds until all trials have ended, where that can be guessed."""
        watch = self.watch
        if watch is None or not watch.durations or self.phase is not Phase.RUNNING:
            return None
        counts = self._records.counts()
        mean = sum(watch.durations) / len(watch.durations)
        return float(mean * math.ceil((counts.running + counts.pending) / max(1, self.concurrent)))

    def _beat(self) -> None:
        self._records.flush()
        progress = Progress(
            attempt_id=self._sweep.file.attempt_id,
            phase=self.phase,
            heartbeat_at=time.time(),
            first_report_at=self.watch.first_report_at if self.watch is not None else None,
            last_step_at=self.watch.last_step_at if self.watch is not None else None,
            trials=self._records.counts(),
            best=self.best_now(),
            running=[
                RunningTrial(trial=r.trial, step=r.step, value=r.value) for r in self._records if r.state == "Running"
            ][:MAX_RUNNING],
            eta_seconds=self.eta(),
            message=self.message,
            receipt_digest=self.receipt_digest,
        )
        self._store.put(layout.PROGRESS, progress_bytes(progress))

    def _ship(self) -> None:
        data = self._tail.take()
        if data is not None:
            self._store.put(layout.attempt_key(self._sweep.file.attempt_id, layout.DRIVER_LOG), data)
