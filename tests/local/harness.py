"""Runs the driver as users do, in a process of its own with a local Ray, and plays the operator beside it."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import yaml

from tests.inventory_agrees import assert_inventory_agrees
from trainjobs.filestore import FileStore
from trainjobs.records import Records
from trainjobs.sweep import load
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract import layout
from trainsweep.contract.canonical import run_name
from trainsweep.contract.documents import Control, Outcome, Progress, Receipt, StopRequest, SweepFile, Verdict

ROOT = Path(__file__).parents[2]
PATIENCE = 1200.0
"""Seconds that a test waits where no behaviour is judged by it: a busy machine needs minutes for seconds of work."""
UID = "0a1b2c3d-0000-4000-8000-000000000001"


class Run:
    """One sweep's run in a directory, over any number of attempts."""

    def __init__(self, base: Path, spec: dict, source: Path, name: str = "tiny", uri: str | None = None):
        self.base, self.spec, self.source, self.name = base, spec, source, name
        self.run = run_name(spec)
        self.uri = f"{(uri or f'file://{base}/store').rstrip('/')}/default/{name}/{self.run}"
        self.root = Path(self.uri.removeprefix("file://"))
        self.store = {"uri": self.uri}
        self.env: dict[str, str] = {}
        self.process: subprocess.Popen | None = None
        self.attempt = 0
        base.mkdir(parents=True, exist_ok=True)

    @property
    def attempt_id(self) -> str:
        return layout.attempt_id(self.attempt, UID)

    def start(
        self, attempt: int = 1, *, cluster: str | None = None, deadline_at: float | None = None, cpus: int = 4
    ) -> None:
        """Starts the driver: in a running cluster, as on Kubernetes, or with a Ray of its own."""
        self.attempt = attempt
        file = SweepFile.model_validate(
            {
                "sweep": {"namespace": "default", "name": self.name, "uid": UID, "run": self.run},
                "attempt": attempt,
                "attemptId": self.attempt_id,
                "store": self.store,
                "spec": TrainSweepSpec.model_validate(self.spec).model_dump(
                    mode="json", by_alias=True, exclude_none=True
                ),
                "deadlineAt": deadline_at,
            }
        )
        self.folder = self.base / f"attempt-{attempt}"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "sweep.json").write_bytes(file.to_json())
        self.control_path = self.folder / "control.json"
        self.control = Control(attempt_id=self.attempt_id)
        environment = {
            **os.environ,
            **self.env,
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}:{self.source}",
            "TRAINSWEEP_STATE_DIR": str(self.base / "state"),
            "TRAINSWEEP_SWEEP_FILE": str(self.folder / "sweep.json"),
            "TRAINSWEEP_CONTROL_FILE": str(self.control_path),
        }
        self.environment = environment
        self.log = (self.folder / "log").open("wb")
        if cluster is not None:
            environment["RAY_ADDRESS"] = cluster
        options = [] if cluster is not None else ["--local", "--cpus", str(cpus)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trainjobs", *options],
            env=environment,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            start_new_session=True,
        )

    def write_control(self, **changes) -> None:
        self.control = self.control.model_copy(update=changes)
        temporary = self.control_path.with_suffix(".new")
        temporary.write_bytes(self.control.to_json())
        temporary.replace(self.control_path)

    def ask_to_stop(self, reason: str = "Deleted", grace: int = 20) -> None:
        self.write_control(stop=StopRequest(reason=reason, grace_seconds=grace))

    def get(self, key: str) -> bytes | None:
        """An object of the run; through boto3 where it lies in S3."""
        if self.uri.startswith("s3://"):
            return self.s3().get(key)
        path = self.root / key
        return path.read_bytes() if path.exists() else None

    def s3(self):
        from trainjobs.store import open_store
        from trainsweep.contract.documents import StoreRef

        return open_store(StoreRef.model_validate(self.store))

    def progress(self) -> Progress | None:
        data = self.get(layout.PROGRESS)
        return None if data is None else Progress.model_validate_json(data)

    def wait_for(self, what, seconds: float = PATIENCE):
        """Polls until `what(progress)` holds for this attempt; the log is shown where the driver ends first."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            progress = self.progress()
            if progress is not None and progress.attempt_id == self.attempt_id and what(progress):
                return progress
            if self.process.poll() is not None:
                raise AssertionError(f"the driver ended with {self.process.returncode}:\n{self.text()[-6000:]}")
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s: {self.progress()}\n{self.text()[-6000:]}")

    def receipt(self, seconds: float = PATIENCE) -> tuple[Receipt, str]:
        """Waits for the next receipt that asks for a verdict: the document and its digest."""
        answered = self.control.verdict.receipt_digest if self.control.verdict else None
        progress = self.wait_for(lambda p: p.receipt_digest and p.receipt_digest != answered, seconds)
        data = self.get(layout.RECEIPT)
        assert hashlib.sha256(data).hexdigest() == progress.receipt_digest
        return Receipt.model_validate_json(data), progress.receipt_digest

    def answer(self, digest: str, result: str = "Persisted", missing=()) -> None:
        self.write_control(verdict=Verdict(receipt_digest=digest, result=result, missing=list(missing)))

    def exit_code(self, seconds: float = PATIENCE) -> int:
        """Waits for the driver's end, without a look into the store."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver does not end:\n{self.text()[-6000:]}") from None

    def end(self, seconds: float = PATIENCE) -> dict:
        """Waits for the driver's end; its end.json with the exit code that was really seen."""
        code = self.exit_code(seconds)
        data = self.get(layout.attempt_key(self.attempt_id, layout.END))
        if data and self.uri.startswith("file://"):
            self.inventory_agrees(Outcome(json.loads(data)["outcome"]))
        return {**(json.loads(data) if data else {}), "seen": code}

    def inventory_agrees(self, outcome: Outcome) -> None:
        """Of this very run, as Ray left it: the operator's inventory owes what the driver's settlement does."""
        sweep = load(self.folder / "sweep.json")
        store = FileStore(layout.parse_uri(self.uri))
        records = Records(store, sweep)
        records.load()
        assert_inventory_agrees(sweep, records, store, outcome)

    def text(self) -> str:
        self.log.flush()
        return (self.folder / "log").read_text(errors="replace")

    def kill(self) -> None:
        """Ends everything that this run started: its own process group."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def trials(self) -> list[dict]:
        return [json.loads(line) for line in (self.get(layout.TRIALS) or b"").splitlines()]


def example(name: str) -> dict:
    return yaml.safe_load((ROOT / "examples" / name / "sweep.yaml").read_text())["spec"]


def in_background(call) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread
