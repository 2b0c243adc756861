"""The class that a command checks sweeps against: from a file, or the cluster's."""

from __future__ import annotations

import typer

from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.cli import cluster
from trainsweep.cli.exits import Exit, leave
from trainsweep.cli.lint import class_spec
from trainsweep.cli.manifests import manifests
from trainsweep.cli.yamlfile import YamlError, read
from trainsweep.runtime.kube import SWEEP_CLASS
from trainsweep.runtime.views import class_view


def chosen_class(file: str | None, name: str | None) -> TrainSweepClassSpec | None:
    """The class of `--class FILE` or `--cluster-class NAME`, None where neither is given; ends the command on an error."""
    if file and name:
        raise typer.BadParameter("says the same as --class: give one of them", param_hint="--cluster-class")
    if name:
        found, problem = class_view(cluster.with_kube(lambda kube: kube.get(SWEEP_CLASS, name)))
        if found is None:
            leave(Exit.FAILED, problem)
        return found.spec
    return class_of_file(file) if file else None


def class_of_file(file: str) -> TrainSweepClassSpec:
    """The one class of a file; ends the command where there is none."""
    try:
        found = [m for m in manifests(read(file)) if m.ours and m.kind == "TrainSweepClass"]
    except YamlError as error:
        leave(Exit.FAILED, str(error))
    if len(found) != 1:
        leave(Exit.USAGE, f"{file}: --class needs a file with one TrainSweepClass, this one has {len(found)}")
    problems, spec = class_spec(found[0])
    if spec is None:
        leave(Exit.FAILED, "\n".join(map(str, problems)))
    return spec
