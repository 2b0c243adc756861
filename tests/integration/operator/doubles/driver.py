"""The driver inside the head pod: trains nothing, but leaves in the store what training leaves, and settles as it must.

Records, manifests, receipts and what is owed come from the driver's own code; Ray, Tune and torch are what is doubled.
What a driver does wrong is scripted by sweep and attempt.
"""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.operator.doubles.api import Mirror, Object
from trainjobs import settle
from trainjobs.manifest import write_manifest
from trainjobs.outcome import GOOD, exit_code
from trainjobs.records import Records
from trainjobs.store import Store, open_store
from trainjobs.sweep import Sweep, parse
from trainsweep.contract import labels, layout
from trainsweep.contract.documents import (
    Control,
    End,
    FailureReason,
    Outcome,
    Phase,
    Progress,
    Start,
    TrialRecord,
    Verdict,
)

_log = logging.getLogger(__name__)
EPOCHS = 2
STOP_OUTCOMES = {"RunDeadlineExceeded": Outcome.DEADLINE_EXCEEDED, "TotalDeadlineExceeded": Outcome.DEADLINE_EXCEEDED}


@dataclass
class Script:
    """How the driver of one attempt behaves. The default is a driver that does everything right."""

    epoch_seconds: float = 0.1
    weights_bytes: int = 4096
    hold: threading.Event | None = None
    """Before the last report: waits until it is set, as a training that takes long."""
    crash_before: str = ""
    """Dies without a word before `training`, `receipt`, or `verdict`; `end`: after the verdict, without end.json."""
    ignore_stop: bool = False
    damage: Callable[[Store, Run], None] | None = None
    """Runs after the driver's own look and before its receipt: what only the second look can find."""
    forge: Callable[[dict[str, Any], Run], dict[str, Any]] | None = None
    """Changes the receipt's JSON before it is written."""
    raw_receipt: bytes | None = None
    raw_progress: Callable[[Store], None] | None = None
    """Writes progress.json instead of the driver, from the first heartbeat on."""
    mends: int = 2
    outcome: Outcome = Outcome.COMPLETED
    on_look: threading.Event = field(default_factory=threading.Event)
    """Set when the receipt is written and the driver waits."""


@dataclass
class Run:
    """One attempt as it runs; tests look at it."""

    sweep: Sweep
    store: Store
    attempt: int
    trained: list[str] = field(default_factory=list)
    """`trial/epoch`, in order."""
    verdicts: list[Verdict] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    state: str = "PENDING"
    message: str = ""
    ended_at: float | None = None


class _Killed(Exception):  # noqa: N818  # named for what it says
    """The head is gone."""


class Drivers:
    """All drivers: what the double of KubeRay asks as the job servers of the clusters."""

    def __init__(self, pods: Callable[[], Mirror]) -> None:
        self._pods = pods
        self._scripts: dict[tuple[str, str], list[Script]] = {}
        self._runs: dict[str, Run] = {}
        self._killed: dict[str, threading.Event] = {}
        self._stops: dict[str, threading.Event] = {}

    def script(self, namespace: str, sweep: str, *scripts: Script) -> None:
        """One script an attempt; the last serves all further ones."""
        self._scripts[(namespace, sweep)] = list(scripts)

    def runs(self, namespace: str, sweep: str) -> list[Run]:
        """Attempts of a sweep that have reached a driver, in order."""
        return [
            r
            for r in self._runs.values()
            if (r.sweep.file.sweep.namespace, r.sweep.file.sweep.name) == (namespace, sweep)
        ]

    # ------------------------------------------------------------------------------------------- what KubeRay asks

    def info(self, uid: str) -> tuple[str, str] | None:
        """See `kuberay.Jobs`."""
        run = self._runs.get(uid)
        return None if run is None else (run.state, run.message)

    def submit(self, job: Object, head: Object) -> None:
        """See `kuberay.Jobs`."""
        uid = job["metadata"]["uid"]
        if uid in self._runs:
            return
        sweep = parse(head["metadata"]["annotations"][labels.SWEEP].encode())
        run = self._runs[uid] = Run(sweep, open_store(sweep.file.store), sweep.file.attempt)
        self._killed[uid], self._stops[uid] = threading.Event(), threading.Event()
        place = (head["metadata"]["namespace"], head["metadata"]["name"])
        scripts = self._scripts.get((sweep.file.sweep.namespace, sweep.file.sweep.name)) or [Script()]
        script = scripts[min(sweep.file.attempt, len(scripts)) - 1]
        driver = _Driver(run, script, lambda: self._control(place), self._killed[uid], self._stops[uid])
        threading.Thread(target=driver.main, daemon=True, name=f"driver-{job['metadata']['name']}").start()

    def kill(self, uid: str) -> None:
        """See `kuberay.Jobs`."""
        if uid in self._killed:
            self._killed[uid].set()

    def stop(self, uid: str) -> None:
        """See `kuberay.Jobs`."""
        if uid in self._stops:
            self._stops[uid].set()

    def _control(self, place: tuple[str, str]) -> Control | None:
        pod = self._pods().get(*place)
        text = ((pod or {}).get("metadata") or {}).get("annotations", {}).get(labels.CONTROL)
        return Control.model_validate_json(text) if text else None


class _Driver:
    def __init__(
        self,
        run: Run,
        script: Script,
        control: Callable[[], Control | None],
        killed: threading.Event,
        sigterm: threading.Event,
    ) -> None:
        self.run, self.script = run, script
        self.sweep, self.store = run.sweep, run.store
        self.records = Records(self.store, self.sweep)
        self._control, self._killed, self._sigterm = control, killed, sigterm
        self._first_report: float | None = None
        self._receipt = ""
        self._own = self.sweep.file.attempt_id

    # ------------------------------------------------------------------------------------------------------- the frame

    def main(self) -> None:
        """`python -m trainjobs`."""
        self.run.state = "RUNNING"
        try:
            code, words = self._main()
        except _Killed:
            return  # nobody is left to answer
        except Exception as error:
            _log.exception("driver double of %s", self.sweep.file.sweep.name)
            code, words = 1, f"{type(error).__name__}: {error}"
        self.run.ended_at = time.time()
        self.run.message = words
        self.run.state = "SUCCEEDED" if code == 0 else "FAILED"

    def _main(self) -> tuple[int, str]:
        start = Start(
            attempt_id=self._own, attempt=self.run.attempt, sweep_uid=self.sweep.file.sweep.uid, started_at=time.time()
        )
        if not self.store.create(layout.attempt_key(self._own, layout.START), start.to_json()):
            return 4, "fenced: this attempt has started before"
        self.records.load()
        if self.script.crash_before == "training":
            return 1, "the driver died"
        outcome, why = self._train()
        if self.script.crash_before == "receipt":
            return 1, "Job entrypoint command failed with exit code 1, last available logs: Killed"
        lost, verified = self._settle(outcome, why)
        if self.script.crash_before == "end":
            return 1, "the driver died after the verdict"
        lost = lost and self.sweep.spec.checkpoints.verify.on_missing == "Fail"
        code, reason = exit_code(outcome, why, lost=lost), why
        if lost and outcome in GOOD:
            outcome, reason = Outcome.FAILED, str(FailureReason.CHECKPOINTS_LOST)
        end = End(
            attempt_id=self._own,
            outcome=outcome,
            reason=reason,
            ended_at=time.time(),
            verified=verified,
            exit_code=code,
        )
        self.store.create(layout.attempt_key(self._own, layout.END), end.to_json())
        self._heartbeat(Phase.ENDED)
        return code, f"ended: {outcome}"

    def _pause(self, seconds: float) -> None:
        if self._killed.wait(seconds):
            raise _Killed

    def _stop_asked(self) -> str:
        if self.script.ignore_stop:
            return ""
        control = self._control()
        if control is not None and control.attempt_id == self._own and control.stop is not None:
            if control.stop.reason not in self.run.stops:
                self.run.stops.append(control.stop.reason)
            return control.stop.reason
        return "SIGTERM" if self._sigterm.is_set() else ""

    def _heartbeat(self, phase: Phase) -> None:
        if self.script.raw_progress is not None:
            return
        counts = self.records.counts()
        progress = Progress(
            attempt_id=self._own,
            phase=phase,
            heartbeat_at=time.time(),
            first_report_at=self._first_report,
            trials=counts,
            best=settle.best_reported(self.records, self.sweep.mode, {}),
            receipt_digest=self._receipt or None,
        )
        self.store.put(layout.PROGRESS, progress.to_json())

    # ---------------------------------------------------------------------------------------------------- the training

    def _train(self) -> tuple[Outcome, str]:
        if self.script.raw_progress is not None:
            self.script.raw_progress(self.store)
        self._heartbeat(Phase.RUNNING)
        todo = self.records.unfinished()
        for index in todo:
            if self.records.get(index) is None:
                self.records.propose(index, {"lr": round(0.1 / (index + 1), 6)})
        known = {index: self.records.get(index) for index in todo}
        done = {i: {c.step for c in settle.committed(self.store, self.sweep, r)} for i, r in known.items() if r}
        for epoch in range(1, EPOCHS + 1):
            for index in todo:
                record = self.records.get(index)
                assert record is not None
                if epoch in done[index]:
                    continue  # restored from its newest checkpoint, as Train's snapshot says
                if epoch == EPOCHS and index == todo[-1] and self.script.hold is not None:
                    while not self.script.hold.is_set() and not self._stop_asked():
                        self._pause(0.1)
                if stop := self._stop_asked():
                    self.records.flush()
                    return STOP_OUTCOMES.get(stop, Outcome.STOPPED), stop
                self._pause(self.script.epoch_seconds)
                self._report(record, epoch)
            self.records.flush()
            self._heartbeat(Phase.RUNNING)
        for index in todo:
            self.records.update(index, state="Succeeded")
        self.records.flush()
        return self.script.outcome, ""

    def _report(self, record: TrialRecord, epoch: int) -> None:
        """One report with a checkpoint: files first, then the snapshot that commits it."""
        value = round(0.9 - 0.1 * record.index - 0.05 * epoch, 6)
        key = settle.run_key(record)
        name = f"checkpoint_{epoch:06d}"
        self.write_checkpoint(record, epoch, f"{key}/{name}")
        found = self.store.get(f"{key}/{layout.SNAPSHOT}")
        snapshot = json.loads(found) if found else {"checkpoint_results": [], "checkpoint_report_indices": []}
        entry = {"checkpoint_dir_name": name, "metrics": {self.sweep.metric: value, "epoch": epoch}}
        snapshot = {
            "checkpoint_results": [*snapshot["checkpoint_results"], entry],
            "checkpoint_report_indices": [*snapshot["checkpoint_report_indices"], epoch - 1],
            "latest_checkpoint_result": entry,
            "pending_training_results": [],
            "pending_validation_specs": [],
            "current_report_index": epoch,
        }
        self.store.put(f"{key}/{layout.SNAPSHOT}", json.dumps(snapshot).encode())
        self.records.report(record.index, epoch, value)
        self.run.trained.append(f"{record.trial}/{epoch}")
        self._first_report = self._first_report or time.time()

    def write_checkpoint(self, record: TrialRecord, epoch: int, key: str) -> None:
        """The same bytes for the same trial and epoch, so that training again mends."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ("weights.bin", "optimizer.bin"):
                seed = f"{record.trial}/{epoch}/{name}|".encode()
                data = (seed * (self.script.weights_bytes // len(seed) + 1))[: self.script.weights_bytes]
                (Path(folder) / name).write_bytes(data)
            write_manifest(Path(folder), rank=0, world_size=1, config_hash=record.config_hash, step=epoch)
            for path in sorted(Path(folder).iterdir()):
                self.store.put(f"{key}/{path.name}", path.read_bytes())

    # -------------------------------------------------------------------------------------------------- the settlement

    def _settle(self, outcome: Outcome, why: str) -> tuple[bool, bool]:
        """Whether owed checkpoints are lost, and whether the verdict was Persisted."""
        for sequence in range(1, self.script.mends + 2):
            verdict = self._one_look(sequence, outcome, why)
            if verdict is None:
                return False, False
            if verdict.result == "Persisted":
                return False, True
            if sequence <= self.script.mends:
                self._mend(verdict)
        return True, False

    def _one_look(self, sequence: int, outcome: Outcome, why: str) -> Verdict | None:
        self._receipt = ""
        self._heartbeat(Phase.SETTLING)
        found = settle.settle(self.store, self.sweep, self.records, outcome)
        if self.script.damage is not None and sequence == 1:
            self.script.damage(self.store, self.run)
        _, digest = settle.write_receipt(
            self._writer(sequence),
            self.sweep,
            self.records,
            found,
            sequence=sequence,
            outcome=outcome,
            reason=why,
            message="",
        )
        if self._forges(sequence):
            # A forger announces what it wrote.
            digest = hashlib.sha256(self.store.get(layout.attempt_key(self._own, layout.RECEIPT)) or b"").hexdigest()
        self._receipt = digest
        self.run.receipts.append(digest)
        if self.script.crash_before == "verdict":
            self._heartbeat(Phase.WAITING_FOR_VERDICT)
            self.script.on_look.set()
            raise RuntimeError("the driver died while it waited")
        until = time.time() + self.sweep.spec.checkpoints.verify.timeout_seconds
        beat = 0.0
        while time.time() < until:
            if time.time() - beat > 5:
                self._heartbeat(Phase.WAITING_FOR_VERDICT)
                beat = time.time()
                self.script.on_look.set()
            control = self._control()
            self._stop_asked()
            if control is not None and control.verdict is not None and control.verdict.receipt_digest == digest:
                self.run.verdicts.append(control.verdict)
                return control.verdict
            self._pause(0.1)
        return None

    def _forges(self, sequence: int) -> bool:
        return sequence == 1 and (self.script.forge is not None or self.script.raw_receipt is not None)

    def _writer(self, sequence: int) -> Any:
        return _Forger(self.store, self.run, self.script) if self._forges(sequence) else self.store

    def _mend(self, verdict: Verdict) -> None:
        self._heartbeat(Phase.MENDING)
        for missing in verdict.missing:
            record = next(r for r in self.records if r.trial == missing.trial)
            epoch = int(missing.checkpoint.rpartition("_")[2])
            self.write_checkpoint(record, epoch, missing.checkpoint)
            self.run.trained.append(f"{record.trial}/{epoch}")


class _Forger:
    """A store that writes another receipt than the driver made; only receipts are touched."""

    def __init__(self, store: Store, run: Run, script: Script) -> None:
        self._store, self._run, self._script = store, run, script

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _forged(self, data: bytes) -> bytes:
        if self._script.raw_receipt is not None:
            return self._script.raw_receipt
        assert self._script.forge is not None
        return json.dumps(self._script.forge(json.loads(data), self._run)).encode()

    def create(self, key: str, data: bytes) -> bool:
        """As the store."""
        return self._store.create(key, self._forged(data) if key.endswith("receipt.json") else data)

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """As the store."""
        return self._store.replace(key, self._forged(data) if key.endswith("receipt.json") else data, tag)
