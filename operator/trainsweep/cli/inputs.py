"""A sweep from a file, resolved with its class: what plan, render and run start from."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import typer

from trainsweep.api.checks import check_spec
from trainsweep.api.resolve import SpecError, resolve
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.cli.classes import chosen_class
from trainsweep.cli.exits import Exit, leave
from trainsweep.cli.lint import Finding, Severity, class_spec, lint
from trainsweep.cli.manifests import Manifest, load
from trainsweep.cli.yamlfile import YamlError

NO_CLASS = "no TrainSweepClass in the file: what the cluster's class adds or forbids is not known here (--class FILE)"


@dataclass(frozen=True)
class Input:
    """One sweep of a file."""

    file: str
    manifest: Manifest
    name: str
    namespace: str
    raw: dict[str, Any]
    sweep_class: TrainSweepClassSpec | None
    spec: TrainSweepSpec

    @property
    def uid(self) -> str:
        """A stand-in for the uid that an API server would give: the same for the same file."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"trainsweep.io/{self.namespace}/{self.name}"))

    def at(self, path: str, message: str) -> str:
        """A problem with its line in the file."""
        document = self.manifest.document
        return str(Finding(document.file, document.line(path), path, message))


def read_input(
    file: str,
    *,
    name: str | None = None,
    class_file: str | None = None,
    cluster_class: str | None = None,
    quiet: bool = False,
) -> Input:
    """Reads and resolves the sweep of a file; prints each problem with its line, and ends the command for an error.

    Args:
        file: path, or `-` for standard input.
        name: of the sweep, where the file has several.
        class_file: file of the class; absent: the class beside the sweep.
        cluster_class: name of a class in the cluster, in place of a file.
        quiet: without warnings.
    """
    given = chosen_class(class_file, cluster_class)
    try:
        found = load(file, name)
        problems = [] if file == "-" else lint([file], given)
    except YamlError as error:
        leave(Exit.FAILED, str(error))
    errors = [p for p in problems if p.severity is Severity.ERROR]
    for problem in errors if quiet else problems:
        typer.echo(str(problem), err=True)
    if errors:
        leave(Exit.FAILED)
    sweep_class = given
    if sweep_class is None and found.sweep_class is not None:
        sweep_class = class_spec(found.sweep_class)[1]
    metadata = found.sweep.document.value.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    document = found.sweep.document
    try:
        spec = resolve(found.spec, sweep_class)
        wrong = check_spec(spec)
    except SpecError as error:
        wrong = error.problems
    if wrong:
        leave(Exit.FAILED, "\n".join(str(Finding(document.file, document.line(p), p, text)) for p, text in wrong))
    if not found.sweep.name:
        leave(Exit.FAILED, f"{document.file}:{document.line('metadata')}: metadata.name is required")
    return Input(
        document.file, found.sweep, found.sweep.name, str(namespace or "default"), found.spec, sweep_class, spec
    )
