"""The life of one attempt: fence, train, settle, wait for the verdict, mend, end. One driver, one attempt, one RayJob.

Every end is written to `end.json` where the store can be written, and said in the last line on standard error.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from trainjobs import fence, leftovers, warmstart
from trainjobs.control import ControlFile
from trainjobs.flags import Flags
from trainjobs.htmlreport.gather import facts_of
from trainjobs.htmlreport.writer import ReportWriter
from trainjobs.logs import Tail
from trainjobs.loop import find_datasets, find_loop
from trainjobs.outcome import GOOD, DriverError, exit_code
from trainjobs.patience import patiently
from trainjobs.proof import Proof
from trainjobs.pulse import Pulse
from trainjobs.records import FINAL, Records
from trainjobs.settle import committed
from trainjobs.source import archive_of, ensure
from trainjobs.store import Store, open_store
from trainjobs.sweep import Sweep
from trainjobs.tracking.hub import Hub
from trainsweep.contract import layout
from trainsweep.contract.documents import ADOPTED, END_LINE, End, FailureReason, Outcome, Phase
from trainsweep.contract.owed import better

logger = logging.getLogger(__name__)

LAST = 60.0
"""Seconds that trackers and report may each take after the end."""
PRESSING = ("Signal", "PreStop", "Interrupted")
"""Stops after which somebody waits for this process to go."""


class Driver:
    """One attempt. `run` returns its exit code."""

    def __init__(
        self, sweep: Sweep, control: Path | None, tail: Tail, *, local: bool = False, cpus: int | None = None
    ) -> None:
        self._sweep, self._local, self._cpus, self._tail = sweep, local, cpus, tail
        self._control_path = control
        self._store: Store | None = None
        self._records: Records | None = None
        self._pulse: Pulse | None = None
        self._flags = Flags(sweep.file.attempt_id)
        self._ray: tuple[int, str, Any, Any] | None = None
        self._proof: Proof | None = None
        self._report: ReportWriter | None = None
        self._tracking: Hub | None = None
        self._end: End | None = None

    def run(self) -> int:
        """Runs the attempt to its end. Call it in the main thread."""
        outcome, reason, message, code = Outcome.FAILED, str(FailureReason.INTERNAL), "", None
        try:
            self._flags.begin()
            self._prepare()
            outcome, reason, message = self._train()
            proof = Proof(self._sweep, self.store, self.records, self.pulse, self._round)
            self._proof = proof
            outcome, reason, message = proof.run(outcome, reason, message)
        except DriverError as error:
            outcome, reason, message = Outcome.FAILED, str(error.reason), error.message
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the last word must still be written
            outcome, reason, message = Outcome.STOPPED, "Interrupted", "interrupted before the state could be settled"
        except Exception as error:
            logger.exception("the driver failed")
            outcome, reason, message = Outcome.FAILED, str(FailureReason.INTERNAL), f"{type(error).__name__}: {error}"
        if self._pulse is not None and self._pulse.fenced is not None:
            outcome, reason, message = Outcome.FAILED, str(FailureReason.FENCED), self._pulse.fenced.message
        lost = (
            self._proof is not None
            and bool(self._proof.lost)
            and self._sweep.spec.checkpoints.verify.on_missing == "Fail"
        )
        code = exit_code(outcome, reason, lost=lost)
        if lost and outcome in GOOD:
            outcome, reason = Outcome.FAILED, str(FailureReason.CHECKPOINTS_LOST)
        self._finish(outcome, reason, message, code)
        return code

    # --- beginning ---

    def _prepare(self) -> None:
        self._store = open_store(self._sweep.file.store)
        own = self._sweep.file.attempt_id
        try:
            patiently("the preflight of the store", lambda: self.store.preflight(f".preflight-{own}"), seconds=60)
        except DriverError as error:
            account = self._sweep.spec.storage.service_account_name
            if error.reason is not FailureReason.STORAGE_DENIED or not account:
                raise
            expected = f"ServiceAccount {self._sweep.file.sweep.namespace}/{account}"
            raise DriverError(error.reason, f"{error.message}; expected: the identity of {expected}") from None
        fence.enter(self.store, self._sweep)
        self._records = Records(self.store, self._sweep)
        self.records.load()
        observations = patiently("reading the earlier run", partial(warmstart.load, self.store, self._sweep))
        self._sweep.proposals.warm(observations)
        control = ControlFile(self._control_path, own)
        self._pulse = Pulse(self._sweep, self.store, self.records, control, self._flags, self._tail)
        self._install_signals()
        self._report = ReportWriter(
            self.store, lambda: facts_of(self._sweep, self.records, self.pulse, self._proof, self._end)
        )
        self.pulse.waits = self._report.soon
        self._tracking = self.records.listener = Hub(self._sweep, self.store)
        self.pulse.start()
        self._report.start()
        self.store.put(layout.SWEEP, self._sweep.file.to_json())
        if any(True for _ in self.records):
            leftovers.clear(self.store, self._sweep, self.records)

    @property
    def store(self) -> Store:
        """The run's store, once it is open."""
        assert self._store is not None  # noqa: S101 - set in _prepare
        return self._store

    @property
    def records(self) -> Records:
        """The run's record."""
        assert self._records is not None  # noqa: S101 - set in _prepare
        return self._records

    @property
    def pulse(self) -> Pulse:
        """The heartbeat."""
        assert self._pulse is not None  # noqa: S101 - set in _prepare
        return self._pulse

    def _install_signals(self) -> None:
        """Turns SIGTERM and the first Ctrl-C into a graceful stop. Call it after ray.init, which sets its own, too."""

        def handle(number: int, frame: Any) -> None:
            again = self.pulse.signal.is_set()
            self.pulse.signal.set()
            if number == signal.SIGINT and again:
                raise KeyboardInterrupt

        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)

    def _connect(self) -> tuple[int, str, Any, Any]:
        """Ray, the board and what all trials share; once an attempt."""
        if self._ray is None:
            archive = archive_of(self._sweep.spec)
            ensure(archive)
            # Before Ray is imported here, as the user's module says whether torch is needed at all.
            _, backend = find_loop(self._sweep.spec.training.entrypoint)
            from trainjobs import board, cluster
            from trainjobs.trial import TrialSetup

            concurrent, resource = cluster.connect(self._sweep, local=self._local, cpus=self._cpus)
            self._install_signals()
            handle = board.start()
            filesystem, root = self.store.filesystem()
            spec = self._sweep.spec
            setup = TrialSetup(
                entrypoint=spec.training.entrypoint,
                archive=archive,
                backend=backend,
                constants=dict(spec.training.config),
                metric=self._sweep.metric,
                mode=self._sweep.mode,
                workers=self._sweep.workers,
                fewest=self._sweep.fewest_workers,
                cpus=self._sweep.cpus,
                gpus=self._sweep.gpus,
                worker_restarts=spec.failure_policy.worker_restarts,
                keep=spec.checkpoints.retention.per_trial,
                root=root,
                filesystem=filesystem,
                attempt_id=self._sweep.file.attempt_id,
                needs_epoch=self._sweep.needs_epoch,
                datasets=find_datasets(spec.training.entrypoint) is not None,
            )
            self._ray = (concurrent, resource, handle, setup)
            self.pulse.concurrent = concurrent
            self.pulse.meter.size = cluster.size
            self.pulse.raise_flag = lambda: handle.stop.remote()
        return self._ray

    # --- training ---

    def _train(self) -> tuple[Outcome, str, str]:
        adopted = self._is_adopted()
        known = self._known_end()
        if known is not None:
            logger.info("nothing is left to train: %s", known[0])
            if known[0] in GOOD and adopted:
                return known[0], ADOPTED, known[2]
            return known
        self._sweep.proposals.replay(self.records)
        return self._round(self._sweep.file.attempt_id, self.records.unfinished(), {})

    def _is_adopted(self) -> bool:
        """Whether all that is recorded was recorded by other sweeps of this name: this one was created after them."""
        own = layout.parse_attempt_id(self._sweep.file.attempt_id)
        writers = {layout.parse_attempt_id(r.attempt_id) for r in self.records if r.attempt_id is not None}
        return own is not None and bool(writers) and all(w is not None and w[1] != own[1] for w in writers)

    def _known_end(self) -> tuple[Outcome, str, str] | None:
        """The end that the record of earlier attempts already says."""
        goal, counts = self._sweep.spec.objective.goal, self.records.counts()
        limit = self._sweep.max_failed
        if goal is not None:
            for record in self.records:
                if record.best_value is not None and not better(goal, record.best_value, self._sweep.mode):
                    self._close_running()
                    return Outcome.GOAL_REACHED, "", f"{record.trial} reached the goal"
        if limit is not None and counts.failed > limit:
            return Outcome.MAX_FAILED_TRIALS, "", self._failed_message()
        return None if self.records.unfinished() else self._all_ended()

    def _close_running(self) -> None:
        for record in self.records:
            if record.state in ("Running", "Proposed"):
                self.records.update(record.index, state="EarlyStopped")

    def _failed_message(self) -> str:
        failed = [r for r in self.records if r.state == "Failed"]
        last = f"; {failed[-1].trial}: {failed[-1].error}" if failed else ""
        return f"{len(failed)} of {self._sweep.count} trials failed{last}"

    def _all_ended(self) -> tuple[Outcome, str, str]:
        counts = self.records.counts()
        if counts.succeeded + counts.early_stopped == 0:
            return Outcome.FAILED, str(FailureReason.NO_TRIAL_SUCCEEDED), self._failed_message()
        return Outcome.COMPLETED, "", self._failed_message() if counts.failed else ""

    def _round(self, name: str, indices: list[int], targets: dict[int, int]) -> tuple[Outcome, str, str]:
        """One run of Tune and what it means for the attempt."""
        from trainjobs.stopping import Watch
        from trainjobs.tunerun import run_tune

        concurrent, resource, handle, setup = self._connect()
        from trainjobs.cluster import wait_until_idle
        from trainjobs.rooms import Rooms

        rooms, watch = Rooms(), Watch()
        if (last := self.pulse.watch) is not None:
            watch.first_report_at, watch.last_step_at = last.first_report_at, last.last_step_at
        self.pulse.watch = watch
        if not targets and self.pulse.stop is None:
            self.pulse.enter(Phase.RUNNING)
        if self.pulse.stop is None and self.pulse.fenced is None:
            try:
                run_tune(
                    self._sweep,
                    self.records,
                    watch,
                    setup,
                    handle,
                    name=name,
                    indices=indices,
                    concurrent=concurrent,
                    resource=resource,
                    committed=self._has_checkpoint,
                    rooms=rooms,
                    targets=targets,
                )
            except Exception as error:
                raise _driver_error(error) or error from None
            wait_until_idle(resource)
            rooms.give_back()
        if self.pulse.fenced is not None:
            raise self.pulse.fenced
        for index in watch.completed:
            record = self.records.get(index)
            if record is not None and record.state == "Running":
                self.records.update(index, state="Succeeded")
        self._catch_up()
        if targets and self.pulse.stop is None:
            return Outcome.COMPLETED, "", ""  # mended: how the attempt ends was known before
        if watch.goal:
            self._close_running()
            return Outcome.GOAL_REACHED, "", ""
        if watch.too_many_failed:
            return Outcome.MAX_FAILED_TRIALS, "", self._failed_message()
        if not self.records.unfinished():
            return self._all_ended()
        if self.pulse.stop is not None:
            return self.pulse.stop.outcome, self.pulse.stop.reason, f"stopped: {self.pulse.stop.reason}"
        raise DriverError(
            FailureReason.INTERNAL, f"Tune ended with {len(self.records.unfinished())} trials not finished"
        )

    def _has_checkpoint(self, index: int) -> bool:
        record = self.records.get(index)
        found = () if record is None else committed(self.store, self._sweep, record)
        return any(item.value is not None for item in found)  # one inside of an epoch has no result

    def _catch_up(self) -> None:
        """Takes over what was committed after Tune looked last: snapshots are ahead of Tune's results."""
        for record in self.records:
            if record.state in FINAL and record.best_value is not None:
                continue
            for item in patiently("reading snapshots", partial(committed, self.store, self._sweep, record)):
                if item.value is not None and item.step >= record.step:
                    state = record.state
                    self.records.report(record.index, item.step, item.value)
                    self.records.update(record.index, state="Running" if state == "Proposed" else state)
        patiently("writing the record", self.records.flush)

    # --- end ---

    def _finish(self, outcome: Outcome, reason: str, message: str, code: int) -> None:
        end = End(
            attempt_id=self._sweep.file.attempt_id,
            outcome=outcome,
            reason=reason[:64],
            message=message[:1000],
            ended_at=time.time(),
            verified=self._proof is not None and self._proof.verified,
            exit_code=code,
        )
        if self._store is not None and reason != FailureReason.FENCED:
            try:
                self._store.create(layout.attempt_key(end.attempt_id, layout.END), end.to_json())
            except DriverError as error:
                logger.error("end.json cannot be written: %s", error.message)
        self._end = end
        if self._pulse is not None:
            self._pulse.enter(Phase.ENDED, message or str(outcome))
            self._pulse.close()
        # Last of all: whoever waits for the end has it by now. A pod that is being ended has seconds, not minutes.
        pressed = self._pulse is not None and self._pulse.stop is not None and self._pulse.stop.reason in PRESSING
        if self._tracking is not None:
            self._tracking.close(5.0 if pressed else LAST)
        if self._report is not None and reason != FailureReason.FENCED:
            self._report.close(5.0 if pressed else LAST)
        self._flags.end()
        if self._ray is not None:
            import ray

            ray.shutdown()
        sys.stdout.flush()
        print(f"{END_LINE}{end.to_json().decode()}", file=sys.stderr, flush=True)


def _driver_error(error: BaseException | None) -> DriverError | None:
    """A DriverError among an error's causes: Tune wraps what a searcher raises."""
    while error is not None:
        if isinstance(error, DriverError):
            return error
        error = error.__cause__ or error.__context__
    return None
