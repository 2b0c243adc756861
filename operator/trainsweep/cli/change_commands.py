"""`trainsweep suspend`, `resume` and `retry`: the few changes of a sweep in a cluster that are not a new file."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from trainsweep.api.conditions import Condition
from trainsweep.cli import cluster
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.contract.labels import RETRY_NOW
from trainsweep.core.draft import is_true
from trainsweep.core.fields import mapping, strings, uid_of
from trainsweep.runtime.kube import SWEEP, Kube, NotFound, Object
from trainsweep.runtime.views import read_status

GONE_SECONDS = 60.0
IN_GIT = ("argocd.argoproj.io/tracking-id", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Name = Annotated[str, typer.Argument(help="Name of the sweep.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json.")]


def _say(output: str, sweep: str, did: str, **more: Any) -> None:
    if as_json_or_text(output):
        typer.echo(json.dumps({"sweep": sweep, "did": did, **more}))
    else:
        typer.echo(f"{sweep}: {did}")


def _suspend(name: str, namespace: str | None, output: str, wanted: bool) -> None:
    as_json_or_text(output)
    where = namespace or cluster.namespace_of_context()

    async def change(kube: Kube) -> str:
        found = await kube.get(SWEEP, name, where)
        if is_true(read_status(found.get("status")), Condition.FINISHED):
            leave(Exit.FAILED, f"{where}/{name} is finished: there is nothing to {'suspend' if wanted else 'resume'}")
        if (mapping(found.get("spec")).get("suspend") is True) is wanted:
            return f"was {'suspended' if wanted else 'not suspended'} already"
        await kube.merge_patch(
            SWEEP, name, {"metadata": {"uid": uid_of(found)}, "spec": {"suspend": True if wanted else None}}, where
        )
        if wanted:
            return "is asked to stop: its checkpoints are settled and verified, then its cluster goes"
        return "goes on: finished trials are not run again"

    _say(output, f"{where}/{name}", cluster.with_kube(change))


def suspend_command(name: Name, namespace: Namespace = None, output: Output = "text") -> None:
    """Stop a sweep gracefully and give its cluster back, until it is resumed.

    Exit codes: 0 asked, 1 it is not there or finished, 2 wrong usage, 3 the cluster cannot be reached or refuses.
    """
    _suspend(name, namespace, output, True)


def resume_command(name: Name, namespace: Namespace = None, output: Output = "text") -> None:
    """Let a suspended sweep go on from its store.

    Exit codes: 0 asked, 1 it is not there or finished, 2 wrong usage, 3 the cluster cannot be reached or refuses.
    """
    _suspend(name, namespace, output, False)


def again(body: Object, run_key: str) -> dict[str, Any]:
    """The same sweep as a new object with another runKey; what servers and tools wrote is left out."""
    meta = mapping(body.get("metadata"))
    notes = {k: v for k, v in strings(meta.get("annotations")).items() if k not in (_LAST_APPLIED, RETRY_NOW)}
    kept = {"name": meta.get("name"), "namespace": meta.get("namespace"), "labels": strings(meta.get("labels"))}
    spec = {k: v for k, v in mapping(body.get("spec")).items() if k != "suspend"}
    return {
        "apiVersion": SWEEP.api_version,
        "kind": SWEEP.kind,
        "metadata": {**{k: v for k, v in kept.items() if v}, **({"annotations": notes} if notes else {})},
        "spec": {**spec, "runKey": run_key},
    }


async def _wait_until_gone(kube: Kube, name: str, namespace: str, uid: str) -> bool:
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until:
        try:
            if uid_of(await kube.get(SWEEP, name, namespace)) != uid:
                return True
        except NotFound:
            return True
        await asyncio.sleep(0.5)
    return False


def retry_command(
    name: Name,
    namespace: Namespace = None,
    run_key: Annotated[
        str | None, typer.Option("--run-key", help="Of the new run; absent: one with the time of now.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also a sweep that Argo CD or Flux made: they may undo it.")
    ] = False,
    output: Output = "text",
) -> None:
    """Run a finished sweep again as a new run (new runKey), or end the pause before the next attempt of a live one.

    A finished sweep is deleted and created again; its old run stays in the store. A sweep that is kept in Git gets its
    new runKey there.

    Exit codes: 0 done, 1 it is not there, or there is nothing to retry, 2 wrong usage, 3 the cluster cannot be reached
    or refuses.
    """
    as_json_or_text(output)
    where = namespace or cluster.namespace_of_context()
    now = datetime.now(UTC)
    key = run_key or now.strftime("r%Y%m%d%H%M%S")

    async def change(kube: Kube) -> tuple[str, str]:
        found = await kube.get(SWEEP, name, where)
        status = read_status(found.get("status"))
        if not is_true(status, Condition.FINISHED):
            if status.deadlines.retry is None:
                leave(Exit.FAILED, f"{where}/{name} is not finished and waits for no retry: see trainsweep why {name}")
            stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
            note = {"metadata": {"uid": uid_of(found), "annotations": {RETRY_NOW: stamp}}}
            await kube.merge_patch(SWEEP, name, note, where)
            return "the pause before the next attempt ends now", ""
        keeper = next((k for k in IN_GIT if k in _marks(found)), "")
        if keeper and not force:
            leave(Exit.FAILED, f"{where}/{name} is kept in Git ({keeper}): set another spec.runKey there, or --force")
        body = again(found, key)
        await kube.delete(SWEEP, name, where, uid=uid_of(found))
        if not await _wait_until_gone(kube, name, where, uid_of(found)):
            leave(
                Exit.FAILED, f"{where}/{name} is still being deleted: create it again with runKey {key} once it is gone"
            )
        await kube.create(SWEEP, body, where)
        return f"starts anew as a new run, runKey {key}", key

    did, new_key = cluster.with_kube(change)
    _say(output, f"{where}/{name}", did, runKey=new_key)


def _marks(body: Object) -> set[str]:
    meta = mapping(body.get("metadata"))
    return {*strings(meta.get("annotations")), *strings(meta.get("labels"))}
