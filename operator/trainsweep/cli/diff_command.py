"""`trainsweep diff`: what applying a file would change of the sweep in the cluster, and what is refused as immutable."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from trainsweep.api.schema import spec_schema
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.validate import pruned
from trainsweep.cli import cluster
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.cli.inputs import Input, read_input
from trainsweep.contract.canonical import run_name
from trainsweep.core.fields import mapping
from trainsweep.runtime.kube import SWEEP, Kube, NotFound, Object
from trainsweep.runtime.views import read_status

AT_NEXT_ATTEMPT = ("training", "cluster", "scheduling")
"""Fields that a running attempt does not see; the others that may change act at once."""


@dataclass(frozen=True)
class Change:
    """One field that differs."""

    path: str
    old: Any
    new: Any
    effect: str
    """Immutable, NextAttempt or AtOnce."""
    advice: str = ""


def fixed() -> list[tuple[str, str]]:
    """Paths that the CRD holds fixed, with what to do instead."""
    return [
        (f"spec{rule.field_path}", rule.message.partition("is immutable: ")[2])
        for rule in TrainSweepSpec.rules
        if rule.message.startswith("is immutable: ") and rule.field_path
    ]


def differences(old: Any, new: Any, path: str = "spec") -> Iterator[tuple[str, Any, Any]]:
    """Leaves and whole lists that differ, by path; None for what is absent."""
    if isinstance(old or {}, Mapping) and isinstance(new or {}, Mapping) and (old or new):
        old, new = old or {}, new or {}
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}")
    elif old != new:
        yield path, old, new


def changes(stored: Mapping[str, Any], written: Mapping[str, Any], *, launched: bool) -> list[Change]:
    """What applying `written` over `stored` does."""
    out = []
    rules = fixed()
    for path, old, new in differences(pruned(stored, spec_schema()), pruned(written, spec_schema())):
        advice = next((text for at, text in rules if path == at or path.startswith(f"{at}.")), "")
        if advice:
            effect = "Immutable"
        elif launched and path.split(".")[1] in AT_NEXT_ATTEMPT:
            effect = "NextAttempt"
        else:
            effect = "AtOnce"
        out.append(Change(path, old, new, effect, advice))
    return out


def _shown(value: Any) -> str:
    text = "absent" if value is None else json.dumps(value, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def diff_command(
    file: Annotated[str, typer.Argument(help="File with the sweep; - reads standard input.")],
    name: Annotated[str | None, typer.Option("--name", help="The sweep, where the file has several.")] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Absent: the file's, or the context's.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Show what applying a file would change: at once, at the next attempt, or not at all because it is immutable.

    Exit codes: 0 nothing would change, 1 something would, or be refused, 2 wrong usage, 3 the cluster cannot be reached.
    """
    wants_json = as_json_or_text(output)
    found = read_input(file, name=name, quiet=True)
    metadata = mapping(found.manifest.document.value.get("metadata"))
    where = namespace or str(metadata.get("namespace") or cluster.namespace_of_context())

    async def read(kube: Kube) -> Object | None:
        try:
            return await kube.get(SWEEP, found.name, where)
        except NotFound:
            return None

    stored = cluster.with_kube(read)
    told = _compare(found, stored)
    if wants_json:
        typer.echo(json.dumps({"sweep": f"{where}/{found.name}", "exists": stored is not None,
                               "changes": [asdict(c) for c in told]}, indent=2))  # fmt: skip
    elif stored is None:
        typer.echo(f"{where}/{found.name} is not there: it would be created, run {run_name(found.raw)}")
    elif not told:
        typer.echo(f"{where}/{found.name}: nothing would change")
    else:
        words = {"Immutable": "REFUSED", "NextAttempt": "next attempt", "AtOnce": "at once"}
        for change in told:
            typer.echo(f"{words[change.effect]:<13} {change.path}: {_shown(change.old)} -> {_shown(change.new)}")
            if change.advice:
                typer.echo(f"{'':<13} {change.advice}")
    if told or stored is None:
        leave(Exit.FAILED)


def _compare(found: Input, stored: Object | None) -> list[Change]:
    if stored is None:
        return []
    launched = read_status(stored.get("status")).attempt > 0
    return changes(mapping(stored.get("spec")), found.raw, launched=launched)
