"""`trainsweep plan`: a sweep in numbers before it costs anything."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from trainsweep.cli import show
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.cli.inputs import NO_CLASS, Input, read_input
from trainsweep.contract.canonical import run_name
from trainsweep.plan.plan import Plan, plan
from trainsweep.render.admission import Problem, check_class, check_templates


def problems_of(found: Input, planned: Plan) -> list[tuple[str, str]]:
    """What would refuse the sweep: with a class all of admission, without one what no class can change."""
    if found.sweep_class is not None:
        problems: list[Problem] = check_class(found.spec, found.raw, found.sweep_class, found.namespace)
        return [(p.path, p.message) for p in problems]
    return [(r.path, r.message) for r in planned.refusals] + [(p.path, p.message) for p in check_templates(found.raw)]


def as_dict(found: Input, planned: Plan, problems: list[tuple[str, str]]) -> dict[str, Any]:
    """The plan for scripts."""
    worst = planned.worst
    return {
        "sweep": f"{found.namespace}/{found.name}",
        "run": run_name(found.raw),
        "trials": planned.trials,
        "maxConcurrent": planned.max_concurrent,
        "workersPerTrial": planned.workers_per_trial,
        "head": planned.head,
        "groups": [
            {
                "name": s.name,
                "resources": s.resources,
                "workersPerPod": s.workers_per_pod,
                "minReplicas": s.min_replicas,
                "maxReplicas": s.max_replicas,
            }
            for s in planned.shapes
        ],
        "autoscaling": planned.autoscaling,
        "maxPods": planned.max_pods,
        "maxGPUs": planned.max_gpus,
        "maxCPUs": planned.max_cpus,
        "maxGPUHours": planned.gpu_hours,
        "worstCase": {**asdict(worst), "worker_starts": worst.worker_starts},
        "parameters": [asdict(r) for r in planned.reaches],
        "notes": list(planned.notes),
        "problems": [{"path": path, "message": message} for path, message in problems],
    }


def _show(console: Console, found: Input, planned: Plan) -> None:
    spec, worst = found.spec, planned.worst
    console.print(f"[bold]{found.namespace}/{found.name}[/bold]  run {run_name(found.raw)}")
    table = Table(box=None, show_header=False, pad_edge=False)
    kind = "points of the grid" if planned.grid is not None else "trials"
    table.add_row("trials", f"{planned.trials} {kind}, {planned.max_concurrent} at a time")
    table.add_row("one trial", f"{planned.workers_per_trial} worker(s) of {_list(spec.training.workers.resources)}")
    table.add_row("head", _list(planned.head))
    for shape in planned.shapes:
        size = f"{shape.min_replicas} to {shape.max_replicas}" if planned.autoscaling else str(shape.max_replicas)
        table.add_row(
            f"group {shape.name}", f"{size} pod(s) of {_list(shape.resources)}, {shape.workers_per_pod} worker(s) each"
        )
    table.add_row("at most", f"{planned.max_pods} worker pod(s), {planned.max_gpus} GPU(s), {planned.max_cpus} CPU(s)")
    if planned.max_gpus:
        hours = (
            "no bound: set budget.gpuHours or deadlines.totalSeconds"
            if planned.gpu_hours is None
            else f"{planned.gpu_hours:.1f}"
        )
        table.add_row("GPU-hours at most", hours)
    table.add_row(
        "retries at worst",
        f"{worst.tries_per_trial} tries a trial x {worst.starts_per_try} starts of its workers x {worst.attempts} "
        f"attempts = {worst.worker_starts} starts",
    )
    table.add_row("owed", f"{spec.checkpoints.require}, proven by {spec.checkpoints.verify.depth}")
    console.print(table)
    space = Table("parameter", "kind", "values", "from", "to", box=None, pad_edge=False)
    for r in planned.reaches:
        space.add_row(r.name, r.kind, "any" if r.count is None else str(r.count), r.first, r.last)
    console.print(space)


def _list(resources: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in resources.items()) or "nothing"


def plan_command(
    file: Annotated[str, typer.Argument(help="File with the sweep; - reads standard input.")],
    name: Annotated[str | None, typer.Option("--name", help="The sweep, where the file has several.")] = None,
    class_file: Annotated[str | None, typer.Option("--class", help="File with the TrainSweepClass.")] = None,
    cluster_class: Annotated[
        str | None, typer.Option("--cluster-class", help="Name of a TrainSweepClass in the cluster.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Show pods, GPUs, retries at worst and reachable values of a sweep, and what would refuse it.

    Exit codes: 0 it can run, 1 it would be refused, 2 wrong usage, 3 the cluster of --cluster-class cannot be reached.
    """
    wants_json = as_json_or_text(output)
    found = read_input(file, name=name, class_file=class_file, cluster_class=cluster_class, quiet=wants_json)
    planned = plan(found.spec, gpu_limit=found.sweep_class.limits.gpus if found.sweep_class else None)
    problems = problems_of(found, planned)
    if wants_json:
        typer.echo(json.dumps(as_dict(found, planned, problems), indent=2))
    else:
        # Without markup: notes may hold what users wrote.
        terminal = show.console()
        if planned.shapes:
            _show(terminal, found, planned)
        for note in planned.notes:
            terminal.print(f"note: {note}", markup=False)
        if found.sweep_class is None:
            terminal.print(f"note: {NO_CLASS}", markup=False)
        for path, message in problems:
            typer.echo(found.at(path, message), err=True)
    if problems:
        leave(Exit.FAILED)
