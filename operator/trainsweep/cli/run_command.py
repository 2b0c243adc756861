"""`trainsweep run FILE --local`: the same file and the same driver on this machine, verified the same way."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

from trainsweep.cli import show
from trainsweep.cli.environment import process_environment
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.cli.inputs import Input, read_input
from trainsweep.cli.judge import Judge, look_at_copy, target_of
from trainsweep.cli.live import View
from trainsweep.contract.canonical import run_name
from trainsweep.contract.documents import Control, End, Outcome, StoreRef, SweepFile, SweepRef
from trainsweep.contract.layout import (
    ATTEMPTS,
    REPORT,
    Location,
    StorageURIError,
    attempt_id,
    attempt_key,
    parse_attempt_id,
    parse_uri,
    run_location,
)
from trainsweep.core.model import ExportState, Proof, Settlement
from trainsweep.core.times import to_seconds
from trainsweep.plan.local import LocalPlan, Machine, local_plan
from trainsweep.runtime.documents_reader import read_end
from trainsweep.runtime.store import Store, StoreError
from trainsweep.runtime.store_s3 import open_store

POLL_SECONDS = 0.5
STOP_MARGIN = 60.0
NOW_SECONDS = 15.0
"""How long a driver that is told to end now may take."""
DEFAULT_STORAGE = "trainsweep-runs"
EXPORTS = "exports"
"""Folder beside the namespaces for the exports of local runs."""
GOOD = (Outcome.COMPLETED, Outcome.GOAL_REACHED)


@dataclass(frozen=True)
class Prepared:
    """A local attempt that is ready to start."""

    found: Input
    location: Location
    store: Store
    file: SweepFile
    folder: Path
    """For the sweep file, the control document and the log."""

    @property
    def log(self) -> Path:
        """Output of the driver and of Ray."""
        return self.folder / "driver.log"


def storage_uri(option: str | None) -> str:
    """The storage of a local run: an `s3://` URI as it is, a folder as `file://`."""
    if option and "://" in option:
        return option
    return f"file://{Path(option or DEFAULT_STORAGE).expanduser().resolve()}"


def next_attempt(store: Store) -> int:
    """One more than the newest attempt that the run's folder shows."""
    known = [parse_attempt_id(name.rstrip("/").rpartition("/")[2]) for name in store.folders(ATTEMPTS, 2_000)]
    return max((found[0] for found in known if found is not None), default=0) + 1


def machine(cpus: int | None) -> Machine:
    """This machine, or the part of it that was asked for."""
    free = 0
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(cpus or os.cpu_count() or 1, free)


def prepare(found: Input, storage: str | None, concurrent: int | None = None) -> Prepared:
    """Where the run lies, which attempt comes next, and the sweep file for it.

    `concurrent` takes the place of trials.maxConcurrent, which is no part of what names a run.

    Raises:
        StorageURIError: for a storage that cannot be one.
        StoreError: where the store cannot be listed.
    """
    spec, run = found.spec, run_name(found.raw)
    location = run_location(storage_uri(storage), found.namespace, found.name, run)
    own = location.scheme == "s3"
    store = open_store(location, spec.storage.region if own else "", spec.storage.endpoint_url if own else "")
    number = next_attempt(store)
    file = SweepFile(
        sweep=SweepRef(namespace=found.namespace, name=found.name, uid=found.uid, run=run),
        attempt=number,
        attempt_id=attempt_id(number, found.uid),
        store=StoreRef(
            uri=location.uri,
            region=(spec.storage.region or None) if own else None,
            endpoint_url=(spec.storage.endpoint_url or None) if own else None,
        ),
        spec=_with_concurrency(spec.model_dump(mode="json", by_alias=True), concurrent),
        export_uri=export_uri(found, location),
        deadline_at=_deadline(found),
        trial_resource=None,
    )
    folder = Path(tempfile.mkdtemp(prefix=f"trainsweep-{found.name}-"))
    (folder / "sweep.json").write_bytes(file.to_json())
    (folder / "control.json").write_bytes(Control(attempt_id=file.attempt_id).to_json())
    return Prepared(found, location, store, file, folder)


def _with_concurrency(spec: dict[str, Any], concurrent: int | None) -> dict[str, Any]:
    return spec if concurrent is None else {**spec, "trials": {**spec["trials"], "maxConcurrent": concurrent}}


def export_uri(found: Input, location: Location) -> str | None:
    """Where a local run exports to: as the sweep says from S3, beside the runs from a folder."""
    export = found.spec.checkpoints.export
    if export is None:
        return None
    uri = export.uri
    if location.scheme == "file":
        # Below the storage, not below the run: a copy that goes with its original is none.
        root = location.uri.removesuffix(f"/{found.namespace}/{found.name}/{run_name(found.raw)}")
        uri = f"{root}/{EXPORTS}"
    return run_location(uri, found.namespace, found.name, run_name(found.raw)).uri


def _deadline(found: Input) -> float | None:
    """When the run must have ended, Unix seconds: on this machine one attempt is all there is."""
    limits, not_after = found.spec.deadlines, to_seconds(found.spec.deadlines.not_after)
    ends = [time.time() + s for s in (limits.run_seconds, limits.total_seconds) if s is not None]
    return min([*ends, not_after] if not_after is not None else ends, default=None)


class Interrupts:
    """Ctrl-C and SIGTERM: the first asks the driver to stop well, the second to end now, the third kills it."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Interrupts:
        self._before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def drive(prepared: Prepared, env: dict[str, str], cpus: int | None, console: Console) -> tuple[int, Judge]:
    """Runs the driver to its end and plays the operator beside it. Returns its exit code and what was judged."""
    spec = prepared.found.spec
    judge = Judge(
        prepared.store,
        target_of(prepared.file.sweep, prepared.file.attempt_id, spec),
        prepared.folder / "control.json",
    )
    command = [sys.executable, "-m", "trainjobs", "--local"]
    command += ["--sweep", str(prepared.folder / "sweep.json"), "--control", str(prepared.folder / "control.json")]
    if cpus is not None:
        command += ["--cpus", str(cpus)]
    with prepared.log.open("wb") as log, Interrupts() as interrupts:
        # A session of its own: Ctrl-C must reach us alone, so that the driver stops when we ask it to.
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            view = View(console, prepared.store, spec.objective.metric, spec.objective.mode.value)
            _watch(process, judge, interrupts, spec.cleanup.stop_grace_seconds, console, view)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return process.returncode, judge


def _watch(
    process: subprocess.Popen[bytes], judge: Judge, interrupts: Interrupts, grace: int, console: Console, view: View
) -> None:
    acted, now_since = 0, 0.0
    with view:
        while process.poll() is None:
            if interrupts.count > acted:
                acted += 1
                now_since = now_since or (time.monotonic() if acted == 2 else 0.0)
                _interrupt(process, judge, acted, grace, console)
            if now_since:
                # Again and again: a driver inside of a long call may have seen only the first one.
                process.send_signal(signal.SIGINT)
                if time.monotonic() - now_since > NOW_SECONDS:
                    process.kill()
            judge.poll()
            view.update(judge.progress, judge.problem)
            time.sleep(POLL_SECONDS)


def _interrupt(process: subprocess.Popen[bytes], judge: Judge, times: int, grace: int, console: Console) -> None:
    if times == 1:
        console.print(
            f"stopping within {grace + int(STOP_MARGIN)} s, with a receipt; Ctrl-C again ends the driver now",
            markup=False,
        )
        judge.ask_to_stop("Interrupted", grace)
    elif times == 2:
        console.print("ending the driver now; the same command goes on from what is in the store", markup=False)
    else:
        process.kill()


def _exported(prepared: Prepared, judge: Judge) -> dict[str, str]:
    """What became of the export, where one was asked for: for the summary, it changes no verdict."""
    uri, ref = prepared.file.export_uri, prepared.file.store
    if uri is None:
        return {}
    found = look_at_copy(
        prepared.store, open_store(parse_uri(uri), ref.region or "", ref.endpoint_url or ""), judge.target
    )
    proven = found.state is ExportState.PROVEN
    return {"exported": found.uri if proven else f"{found.state.value}: {found.message}"}


def result(prepared: Prepared, code: int, judge: Judge) -> tuple[Exit, dict[str, Any]]:
    """The verdict of the whole: the driver's end and the second look must both be good."""
    end: End | None = None
    try:
        end = read_end(prepared.store, prepared.file.attempt_id)
    except StoreError as error:
        problem = f"the driver left no end.json ({error})"
    else:
        problem = end.message
    settled: Settlement = judge.final_look()
    require = prepared.found.spec.checkpoints.require
    nothing = settled.proof is Proof.PERSISTED and settled.required == 0 and require != "None"
    verified = settled.proof is Proof.PERSISTED and not nothing
    warns = prepared.found.spec.checkpoints.verify.on_missing == "Warn"
    ended_well = end is not None and end.outcome in GOOD and code == 0
    fine = ended_well and (verified or (warns and settled.proof is not Proof.UNKNOWN))
    if nothing:
        problem = problem or "no committed checkpoint is owed: the loop must report with one, or set require: None"
    elif not verified and settled.message:
        problem = f"{problem}; {settled.message}" if problem else settled.message
    out = show.summary(prepared.location, prepared.file.attempt_id, settled)
    out |= _exported(prepared, judge) if verified and ended_well else {}
    out |= {
        "outcome": str(end.outcome) if end else "Unknown",
        "reason": end.reason if end else "",
        "message": problem,
        "verified": verified,
        "report": f"{prepared.location.uri}/{REPORT}",
        "exitCode": code,
        "log": str(prepared.log),
        "driverLog": f"{prepared.location.uri}/{attempt_key(prepared.file.attempt_id, 'driver.log')}",
    }
    if ended_well and settled.proof is Proof.UNKNOWN:
        return Exit.UNREACHABLE, out
    return (Exit.OK if fine else Exit.FAILED), out


def run_command(
    file: Annotated[str, typer.Argument(help="File with the sweep; - reads standard input.")],
    local: Annotated[bool, typer.Option("--local", help="Run on this machine; required for now.")] = False,
    storage: Annotated[
        str | None, typer.Option("--storage", help=f"Folder or s3:// URI for the run; absent: ./{DEFAULT_STORAGE}.")
    ] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs that Ray may use; absent: all.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="The sweep, where the file has several.")] = None,
    class_file: Annotated[str | None, typer.Option("--class", help="File with the TrainSweepClass.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Run a sweep on this machine without Kubernetes: same file, driver and proof. A second run goes on from the first.

    Exit codes: 0 ended well and proven, 1 failed or not proven, 2 wrong usage, 3 the store cannot be read.
    """
    wants_json = as_json_or_text(output)
    if not local:
        leave(Exit.USAGE, "run needs --local: in a cluster a sweep runs by kubectl apply -f FILE")
    if importlib.util.find_spec("ray") is None or not _driver_is_here():
        leave(Exit.USAGE, "the driver is not installed here: pip install 'trainsweep[train]'")
    found = read_input(file, name=name, class_file=class_file, quiet=wants_json)
    console = show.console(stderr=wants_json)
    here = machine(cpus)
    planned = local_plan(found.spec, here)
    if planned.refusals:
        leave(Exit.FAILED, "\n".join(found.at(r.path, r.message) for r in planned.refusals))
    _say_plan(console, planned, here)
    try:
        prepared = prepare(found, storage, planned.max_concurrent)
        env, notes = process_environment(found, prepared.folder)
    except (StorageURIError, ValueError, OSError) as error:
        leave(Exit.USAGE, str(error))
    except StoreError as error:
        leave(Exit.UNREACHABLE, f"{storage}: {error}")
    for note in notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"attempt {prepared.file.attempt} of {prepared.location.uri}", markup=False)
    console.print(f"log {prepared.log}", markup=False)
    console.print(f"report {prepared.location.uri}/{REPORT} (from the third minute on, and at the end)", markup=False)
    code, judge = drive(prepared, env, cpus, console)
    verdict, out = result(prepared, code, judge)
    if wants_json:
        typer.echo(json.dumps(out, indent=2))
    else:
        for key, value in out.items():
            if value not in ("", None, [], {}):
                console.print(
                    f"{key:<12} {json.dumps(value) if isinstance(value, dict | list) else value}", markup=False
                )
        if verdict is not Exit.OK:
            _tail(prepared.log)
    leave(verdict)


def _say_plan(console: Console, planned: LocalPlan, here: Machine) -> None:
    for note in planned.notes:
        console.print(f"note: {note}", markup=False)
    console.print(
        f"plan {planned.max_concurrent} trial(s) at a time, {planned.cpus_per_trial} of {here.cpus} CPUs each, "
        f"about {planned.memory / 2**30:.1f} of {here.memory / 2**30:.1f} GiB free memory",
        markup=False,
    )


def _driver_is_here() -> bool:
    from trainsweep.cli.environment import packages

    return importlib.util.find_spec("trainjobs") is not None or any(
        (Path(p) / "trainjobs" / "__init__.py").exists() for p in packages()
    )


def _tail(log: Path, lines: int = 25) -> None:
    typer.echo(f"--- the end of {log}", err=True)
    text = log.read_bytes()[-16_384:].decode(errors="replace")
    typer.echo("\n".join(text.splitlines()[-lines:]), err=True)
