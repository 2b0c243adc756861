"""`trainsweep why`: every layer between a sweep and its trials, with the user's own rights, and what to do."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from trainsweep.api.conditions import Condition
from trainsweep.api.pending import Layer
from trainsweep.cli import cluster
from trainsweep.cli.cluster import Found, found_in
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.contract import labels
from trainsweep.core.draft import is_true
from trainsweep.core.fields import name_of
from trainsweep.core.pending.chain import Step, chain, lowest
from trainsweep.core.pending.situation import Situation, State, is_head, live, phase
from trainsweep.render.rayjob import rayjob_name
from trainsweep.runtime.kube import POD, RAY_CLUSTER, RAY_JOB, Kube, KubeError, NotFound, Object
from trainsweep.runtime.views import ray_job_view
from trainsweep.runtime.waiting import Bodies, Waiting

LOG_LINES = 400
_MARKS = {State.SATISFIED: "ok", State.WAITING: "WAITS", State.UNREADABLE: "not readable"}


async def look(kube: Kube, found: Found) -> Situation:
    """The situation of a sweep's newest attempt, as the caller may see it."""
    view = found.view
    unread: dict[str, str] = {}
    job: Object | None = None
    ray_cluster: Object | None = None
    pods: list[Object] = []
    if view.status.attempt:
        name = rayjob_name(view.name, view.uid, view.status.attempt)
        try:
            job = await kube.get(RAY_JOB, name, view.namespace)
            if cluster_name := ray_job_view(job).cluster:
                ray_cluster = await kube.get(RAY_CLUSTER, cluster_name, view.namespace)
        except NotFound:
            pass
        except KubeError as error:
            unread["RayJob"] = error.message
        try:
            selector = f"{labels.SWEEP_UID}={view.uid},{labels.ATTEMPT}={view.status.attempt}"
            pods, _ = await kube.page(POD, view.namespace, labels=selector, limit=500)
        except KubeError as error:
            unread["Pod"] = error.message
    bodies = Bodies(ray_job=job, ray_cluster=ray_cluster, pods=pods, refusal=_refusal(found), store=_store(found))
    seen = await Waiting(kube, patient=False).situation(view, bodies)
    head = next((p for p in live(pods) if is_head(p) and phase(p) == "Running"), None)
    log = ""
    if head is not None and view.status.trials.running == 0:
        # Without an autoscaler, or without the right to read logs, the counts of pods say something too.
        with contextlib.suppress(KubeError):
            log = await kube.log(name_of(head), "autoscaler", view.namespace, LOG_LINES)
    return replace(seen, autoscaler_log=log, unread={**seen.unread, **unread})


def _refusal(found: Found) -> str:
    """What the operator was told when it made the RayJob: only it knows."""
    pending = found.view.status.pending
    return pending.message if pending is not None and pending.layer == Layer.QUOTA else ""


def _store(found: Found) -> str:
    """What the operator found of the store: this command opens none."""
    pending = found.view.status.pending
    if pending is None or pending.layer != Layer.STORAGE:
        return ""
    return pending.message.removeprefix("the operator: ")


def as_dict(steps: tuple[Step, ...]) -> dict[str, Any]:
    """For scripts."""
    first = lowest(steps)
    return {
        "waits": first is not None,
        "layer": first.layer if first else "",
        "reason": str(first.reason) if first else "",
        "message": first.message if first else "",
        "cure": first.cure if first else "",
        "chain": [
            {
                "layer": step.layer,
                "state": step.state,
                "reason": str(step.finding.reason) if step.finding else "",
                "message": step.finding.message if step.finding else step.note,
                "cure": step.finding.cure if step.finding else "",
            }
            for step in steps
        ],
    }


def text_of(name: str, steps: tuple[Step, ...]) -> list[str]:
    """For people: the cause and its cure first, the chain below it."""
    first = lowest(steps)
    if first is None:
        lines = [f"{name}: nothing waits"]
    else:
        lines = [f"{name} waits at {first.layer}: {first.reason}", f"  {first.message}"]
        lines += [f"  do: {first.cure}" if first.cure else "  do: nothing, it passes by itself"]
    lines.append("")
    for step in steps:
        detail = f"{step.finding.reason}: {step.finding.message}" if step.finding else step.note
        mark = "->" if first is not None and step.layer is first.layer else "  "
        lines.append(f"{mark} {step.layer:<11} {_MARKS[step.state]:<13}{detail}".rstrip())
    return lines


def why_command(
    name: Annotated[str, typer.Argument(help="Name of the sweep.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Say why a sweep waits: the lowest layer that is not satisfied, what to do, and the whole chain.

    Exit codes: 0 nothing waits, 1 something does, or the sweep is not there, 2 wrong usage, 3 the cluster cannot be
    reached.
    """
    wants_json = as_json_or_text(output)
    where = namespace or cluster.namespace_of_context()

    async def main(kube: Kube) -> tuple[Found, Situation]:
        found = await found_in(kube, name, where)
        return found, await look(kube, found)

    found, seen = cluster.with_kube(main)
    steps = () if is_true(found.view.status, Condition.FINISHED) else chain(seen)
    if wants_json:
        typer.echo(json.dumps({"sweep": f"{where}/{name}", "at": int(time.time()), **as_dict(steps)}, indent=2))
    else:
        finished = ["It is finished: see trainsweep status."] if not steps else []
        typer.echo("\n".join([*text_of(f"{where}/{name}", steps), *finished]))
    if lowest(steps) is not None:
        leave(Exit.FAILED)
