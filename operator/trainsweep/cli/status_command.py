"""`trainsweep status`: a sweep's state as its status says it, once or until it is finished."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from trainsweep.api.conditions import Condition
from trainsweep.api.status import ConditionStatus, TrainSweepStatus
from trainsweep.cli import show
from trainsweep.cli.cluster import namespace_of_context, read
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.runtime.views import read_status

WATCH_SECONDS = 2.0


def condition(status: TrainSweepStatus, kind: Condition) -> ConditionStatus | None:
    """A condition by type."""
    return next((c for c in status.conditions if c.type == kind), None)


def line_of(status: TrainSweepStatus) -> str:
    """STATE, TRIALS, BEST, VERIFIED and ATTEMPT as `kubectl get` shows them, in one line."""
    state, verified = condition(status, Condition.SUCCEEDED), condition(status, Condition.CHECKPOINTS_VERIFIED)
    counts = status.trials
    parts = [
        f"{state.reason if state else 'Pending':<14}",
        f"trials {counts.summary or '-'} ({counts.running} running, {counts.failed} failed)",
        f"best {status.best.value if status.best else '-'}",
        f"verified {verified.status if verified else '-'}",
        f"attempt {status.attempt}",
    ]
    if status.progress.eta_seconds:
        parts.append(f"about {status.progress.eta_seconds} s left")
    if status.pending is not None:
        parts.append(f"waits: {status.pending.reason}: {status.pending.message}")
    return "  ".join(parts)


def show_status(console: Console, name: str, status: TrainSweepStatus) -> None:
    """Everything worth knowing, longest last."""
    console.print(f"{name}  {line_of(status)}", markup=False)
    if status.best is not None:
        parameters = ", ".join(f"{k}={v}" for k, v in status.best.parameters.items())
        console.print(f"best        {status.best.trial}: {status.best.value} with {parameters}", markup=False)
        console.print(f"checkpoint  {status.best.checkpoint_uri or '-'}", markup=False)
    if status.checkpoints.required:
        owed = status.checkpoints
        proven = f"{owed.verified} of {owed.required} owed checkpoints, {owed.files} files, {owed.bytes} bytes"
        console.print(f"proven      {proven}; receipt {owed.receipt_digest[:12] or '-'}", markup=False)
    exported = condition(status, Condition.EXPORTED)
    if exported is not None:
        words = status.checkpoints.export_uri or f"{exported.reason}: {exported.message}"
        console.print(f"exported    {words}", markup=False)
    for missing in status.checkpoints.missing:
        console.print(f"missing     {missing}", markup=False)
    if status.run_uri:
        console.print(f"run         {status.run_uri}", markup=False)
    table = Table("condition", "status", "reason", "message", box=None, pad_edge=False)
    for c in status.conditions:
        table.add_row(_plain(c.type), c.status, _plain(c.reason), _plain(c.message))
    console.print(table)
    if len(status.attempts) > 1 or (status.attempts and status.attempts[-1].end_class):
        table = Table("attempt", "rayjob", "ended", "class", "reason", box=None, pad_edge=False)
        for a in status.attempts:
            table.add_row(str(a.number), _plain(a.ray_job), a.ended_at or "-", a.end_class or "-", _plain(a.reason))
        console.print(table)


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def status_command(
    name: Annotated[str, typer.Argument(help="Name of the sweep.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until the sweep is finished.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Show a sweep's state.

    Exit codes: 0 it is there and has not failed (with --watch: it succeeded), 1 it is not there or failed,
    2 wrong usage, 3 the cluster cannot be reached.
    """
    wants_json = as_json_or_text(output)
    where = namespace or namespace_of_context()
    terminal = show.console()
    last = ""
    while True:
        body = read(name, where)
        status = read_status(body.get("status"))
        finished = condition(status, Condition.FINISHED)
        done = finished is not None and finished.status == "True"
        line = line_of(status)
        if watch and not done and line != last:
            typer.echo(json.dumps(body.get("status") or {}) if wants_json else f"{time.strftime('%H:%M:%S')}  {line}")
            last = line
        if done or not watch:
            break
        time.sleep(WATCH_SECONDS)
    if wants_json:
        typer.echo(json.dumps(body.get("status") or {}, indent=None if watch else 2))
    else:
        show_status(terminal, f"{where}/{name}", status)
    succeeded = condition(status, Condition.SUCCEEDED)
    if succeeded is not None and succeeded.status == "False":
        leave(Exit.FAILED)
