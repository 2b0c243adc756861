"""`trainsweep list`: sweeps over namespaces, with what they hold and what they have used."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from trainsweep.api.conditions import Condition
from trainsweep.cli import cluster, show
from trainsweep.cli.exits import as_json_or_text
from trainsweep.core.draft import find_condition, is_true
from trainsweep.core.fields import mapping, name_of, text
from trainsweep.runtime.kube import SWEEP, Kube, Object
from trainsweep.runtime.resync import pages
from trainsweep.runtime.views import read_status


def row(body: Object) -> dict[str, Any]:
    """A sweep in a line."""
    status = read_status(body.get("status"))
    state = find_condition(status, Condition.SUCCEEDED)
    spec = mapping(body.get("spec"))
    pending = status.pending
    return {
        "namespace": text(mapping(body.get("metadata")).get("namespace"), 63),
        "name": name_of(body),
        "class": status.resolved.class_name or text(spec.get("className"), 63),
        "state": state.reason if state else "New",
        "trials": status.trials.summary,
        "best": status.best.value if status.best else "",
        "gpus": status.usage.gpus,
        "gpuHours": round(status.usage.gpu_seconds / 3600, 2),
        "waits": f"{pending.layer}: {pending.reason}" if pending else "",
        "finished": is_true(status, Condition.FINISHED),
    }


def list_command(
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    everywhere: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")] = False,
    active: Annotated[bool, typer.Option("--active", help="Leave out those that are finished.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """List sweeps with their state, the GPUs that they hold and the GPU-hours that they have used.

    Exit codes: 0 listed, also where there is none, 2 wrong usage, 3 the cluster cannot be reached or refuses.
    """
    wants_json = as_json_or_text(output)
    if everywhere and namespace:
        raise typer.BadParameter("says the opposite of --namespace", param_hint="--all-namespaces")
    where = "" if everywhere else namespace or cluster.namespace_of_context()

    async def read(kube: Kube) -> list[dict[str, Any]]:
        return [row(body) async for body in pages(kube, SWEEP, [where])]

    rows = [r for r in cluster.with_kube(read) if not (active and r["finished"])]
    rows.sort(key=lambda r: (r["namespace"], r["name"]))
    if wants_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    columns = ("namespace", "name", "class", "state", "trials", "best", "gpus", "gpuHours", "waits")
    table = Table(*(c if c != "gpuHours" else "gpu-hours" for c in columns), box=None, pad_edge=False)
    for item in rows:
        table.add_row(*(str(item[c]).replace("[", "\\[") for c in columns))
    table.add_section()
    held, used = sum(r["gpus"] for r in rows), sum(r["gpuHours"] for r in rows)
    table.add_row("", f"{len(rows)} sweep(s)", "", "", "", "", str(held), f"{used:.2f}", "")
    show.console().print(table)
