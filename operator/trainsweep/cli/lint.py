"""`trainsweep lint`: what the API server, the operator and a careful reader would say, each with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from trainsweep.api import API_VERSION, GROUP
from trainsweep.api.checks import check_spec
from trainsweep.api.crd import NAME_RULES
from trainsweep.api.resolve import SpecError, resolve
from trainsweep.api.schema import spec_schema
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.api.validate import shown, violations
from trainsweep.cli.manifests import Manifest, class_beside, manifests, pick, stranger
from trainsweep.cli.yamlfile import YamlError, read
from trainsweep.plan.nodes import misfits


class Severity(StrEnum):
    """How bad a finding is: an error is refused, a warning only looks wrong."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or looks so."""

    file: str
    line: int
    path: str
    message: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        word = "" if self.severity is Severity.ERROR else "warning: "
        return f"{place}: {word}{f'{self.path}: ' if self.path else ''}{self.message}"


def lint(paths: Sequence[str], sweep_class: TrainSweepClassSpec | None = None) -> list[Finding]:
    """Checks files.

    Args:
        paths: the files; `-` is standard input.
        sweep_class: the class that the sweeps will meet; absent: the one in the same file, if there is one.

    Returns:
        The findings in the order of the files; without an error among them the file is accepted everywhere.
    """
    return [finding for path in paths for finding in _file(path, sweep_class)]


def _file(path: str, sweep_class: TrainSweepClassSpec | None) -> Iterator[Finding]:
    try:
        documents = read(path)
        found = manifests(documents)
        ours = [m for m in found if m.ours]
        if not ours:
            pick(found, documents[0].file if documents else path)
    except YamlError as error:
        yield Finding(error.file, error.line, "", error.message)
        return
    classes: dict[str, TrainSweepClassSpec | None] = {}
    for manifest in ours:
        yield from _object(manifest)
        if manifest.kind == "TrainSweepClass":
            problems, classes[manifest.name] = class_spec(manifest)
            yield from problems
    for manifest in ours:
        if manifest.kind == "TrainSweep":
            beside = class_beside(manifest, ours)
            yield from _sweep(manifest, sweep_class or (classes[beside.name] if beside else None))


def _finding(manifest: Manifest, path: str, message: str, severity: Severity = Severity.ERROR) -> Finding:
    document = manifest.document
    return Finding(document.file, document.line(path), path, message, severity)


def _object(manifest: Manifest) -> Iterator[Finding]:
    """apiVersion, kind, name, and keys at the top that nothing reads."""
    if manifest.kind not in ("TrainSweep", "TrainSweepClass"):
        yield _finding(manifest, "kind", f"{stranger(manifest)}, expected TrainSweep or TrainSweepClass")
        return
    if manifest.api_version != API_VERSION:
        yield _finding(manifest, "apiVersion", f"{manifest.api_version} is not known here: write {API_VERSION}")
    value = manifest.document.value
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            yield _finding(manifest, key, f'unknown field "{key}": a strict API server refuses it')
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        yield _finding(manifest, "metadata", "must be a map with a name")
        return
    if manifest.kind == "TrainSweep":
        yield from _name(manifest, metadata)
    elif not metadata.get("name"):
        yield _finding(manifest, "metadata.name", "is required")


def _name(manifest: Manifest, metadata: dict[str, Any]) -> Iterator[Finding]:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if not name and isinstance(prefix, str) and prefix:
        # The API server appends five characters; what is too long is cut there, which no one wants.
        name, path = f"{prefix}xxxxx", "metadata.generateName"
    else:
        path = "metadata.name"
    if not isinstance(name, str) or not name:
        yield _finding(manifest, path, "is required and must be a string")
        return
    if len(name) > 36:
        yield _finding(manifest, path, NAME_RULES[0].message)
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        yield _finding(manifest, path, NAME_RULES[1].message)


def class_spec(manifest: Manifest) -> tuple[list[Finding], TrainSweepClassSpec | None]:
    """A class of a file as a typed model, or what is wrong with it."""
    spec = manifest.document.value.get("spec")
    problems = violations(spec, spec_schema("TrainSweepClass"))
    if problems:
        return [_finding(manifest, path, message) for path, message in problems], None
    return [], TrainSweepClassSpec.model_validate(spec)


def _sweep(manifest: Manifest, sweep_class: TrainSweepClassSpec | None) -> Iterator[Finding]:
    spec = manifest.document.value.get("spec")
    if spec is None:
        yield _finding(manifest, "spec", "is required")
        return
    problems = violations(spec, spec_schema())
    if not problems:
        try:
            resolved = resolve(spec, sweep_class)
        except SpecError as error:
            problems = error.problems
        else:
            problems = check_spec(resolved)
            yield from (_finding(manifest, path, text, Severity.WARNING) for path, text in warnings(resolved))
    yield from (_finding(manifest, path, message) for path, message in problems)


def warnings(spec: TrainSweepSpec) -> Iterable[tuple[str, str]]:
    """What is allowed and yet likely not meant, as (field path, message) pairs."""
    yield from _mixed_values(spec)
    yield from misfits(spec)
    for i, variable in enumerate(spec.training.env):
        if variable.name == "GLOO_SOCKET_IFNAME" and (variable.value or "").startswith("^"):
            text = "Gloo knows no exclusion with ^, which is NCCL's: name the interface, or remove the variable"
            yield f"spec.training.env[{i}].value", text
    early = spec.trials.early_stopping
    if early is not None:
        if spec.trials.max_concurrent == 1:
            yield (
                "spec.trials.maxConcurrent",
                f"with 1, early trials have nothing to be compared with: {early.name} stops later ones only",
            )
        stop = spec.trials.stop.max_epochs if spec.trials.stop else None
        rule = early.asha or early.hyperband or early.median
        if stop is not None and rule is not None and rule.grace_epochs >= stop:
            path = f"spec.trials.earlyStopping.{early.name}.graceEpochs"
            yield path, f"no rung is reached: trials end after {stop} epochs (trials.stop.maxEpochs)"


def _mixed_values(spec: TrainSweepSpec) -> Iterator[tuple[str, str]]:
    for i, parameter in enumerate(spec.search.parameters):
        if parameter.categorical is None:
            continue
        kinds = {_kind(value) for value in parameter.categorical.values}
        if len(kinds) > 1:
            read_as = ", ".join(f"{shown(value)} ({_kind(value)})" for value in parameter.categorical.values[:8])
            text = f"the values are of several kinds: {read_as}; quote what is meant as a string"
            yield f"spec.search.parameters[{i}].categorical.values", text
        elif kinds == {"boolean"}:
            text = "were read as true and false: quote them if words such as yes, no, on, off, y or n are meant"
            yield f"spec.search.parameters[{i}].categorical.values", text


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def as_json(findings: Sequence[Finding]) -> str:
    """The findings for scripts: a list of objects with file, line, path, message, severity."""
    return json.dumps([asdict(finding) for finding in findings], indent=2)


def lint_command(
    files: Annotated[list[str], typer.Argument(help="Files with sweeps and classes; - reads standard input.")],
    class_file: Annotated[
        str | None, typer.Option("--class", help="File with the TrainSweepClass; absent: the one beside a sweep.")
    ] = None,
    cluster_class: Annotated[
        str | None, typer.Option("--cluster-class", help="Name of a TrainSweepClass in the cluster.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Check files as the API server and the operator would, with the line of each problem.

    Exit codes: 0 nothing is refused, 1 something is, 2 wrong usage, 3 the cluster of --cluster-class cannot be reached.
    """
    from trainsweep.cli.classes import chosen_class  # it reads its file with what is defined here

    if output not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--output")
    findings = lint(files, chosen_class(class_file, cluster_class))
    refused = any(finding.severity is Severity.ERROR for finding in findings)
    if output == "json":
        typer.echo(as_json(findings))
    else:
        for finding in findings:
            typer.echo(str(finding), err=finding.severity is Severity.ERROR)
        if not refused:
            typer.echo(f"{', '.join(files)}: fine for {GROUP}")
    raise typer.Exit(1 if refused else 0)
