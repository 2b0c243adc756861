"""`trainsweep render`: the RayJob that the operator would make."""

from __future__ import annotations

import json
from typing import Annotated

import typer
import yaml

from trainsweep.api.resolve import resolve
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.cli.exits import Exit, leave
from trainsweep.cli.inputs import Input, read_input
from trainsweep.cli.plan_command import problems_of
from trainsweep.contract.canonical import run_name
from trainsweep.plan.plan import plan
from trainsweep.render.rayjob import KubeRay, RenderInput, check, render

STAND_IN = TrainSweepClassSpec.model_validate(
    {
        "defaults": {
            "training": {"image": "image-of-the-class"},
            "storage": {"uri": "s3://bucket-of-the-class"},
        }
    }
)
"""Where no class is given: names that say where the values would come from."""


def _version(text: str) -> KubeRay:
    parts = text.split(".")
    if len(parts) != 3 or not all(p.isdigit() for p in parts):
        raise typer.BadParameter("must be a version such as 1.6.1", param_hint="--kuberay")
    return KubeRay.of_version((int(parts[0]), int(parts[1]), int(parts[2])))


def render_input(found: Input, attempt: int, kuberay: KubeRay) -> RenderInput:
    """What the operator would render for an attempt of this sweep."""
    spec = found.spec if found.sweep_class is not None else resolve(found.raw, STAND_IN)
    return RenderInput(
        spec=spec,
        sweep_class=found.sweep_class,
        namespace=found.namespace,
        name=found.name,
        uid=found.uid,
        run=run_name(found.raw),
        attempt=attempt,
        kuberay=kuberay,
    )


def render_command(
    file: Annotated[str, typer.Argument(help="File with the sweep; - reads standard input.")],
    name: Annotated[str | None, typer.Option("--name", help="The sweep, where the file has several.")] = None,
    class_file: Annotated[str | None, typer.Option("--class", help="File with the TrainSweepClass.")] = None,
    attempt: Annotated[int, typer.Option(min=1, max=999, help="Number of the attempt.")] = 1,
    kuberay: Annotated[str, typer.Option(help="Version of KubeRay.")] = "1.6.1",
    output: Annotated[str, typer.Option("--output", "-o", help="yaml or json.")] = "yaml",
) -> None:
    """Print the RayJob of an attempt. The uid is a stand-in, and so are image and storage where no class gives them.

    Exit codes: 0 rendered, 1 the sweep would be refused, 2 wrong usage.
    """
    if output not in ("yaml", "json"):
        raise typer.BadParameter("must be yaml or json", param_hint="--output")
    version = _version(kuberay)
    found = read_input(file, name=name, class_file=class_file, quiet=True)
    planned = plan(found.spec, gpu_limit=found.sweep_class.limits.gpus if found.sweep_class else None)
    problems = problems_of(found, planned)
    for path, message in problems:
        typer.echo(found.at(path, message), err=True)
    if problems:
        leave(Exit.FAILED)
    rayjob = render(render_input(found, attempt, version))
    if refused := check(rayjob, kueue=bool(found.spec.scheduling.queue_name)):
        leave(Exit.FAILED, "\n".join(f"KubeRay would refuse it: {r}" for r in refused))
    if output == "json":
        typer.echo(json.dumps(rayjob, indent=2))
    else:
        typer.echo(yaml.safe_dump(rayjob, sort_keys=False, width=110, allow_unicode=True), nl=False)
