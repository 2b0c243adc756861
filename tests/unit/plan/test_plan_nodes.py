"""The classes for EKS node types: their pods fit the nodes, and lint says so where a pod does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.render.render_builders import raw
from trainsweep.api.resolve import merge, resolve
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.cli.lint import Severity, lint
from trainsweep.plan.nodes import INSTANCE_TYPE, MACHINES, misfits
from trainsweep.plan.plan import plan
from trainsweep.render.admission import check_class

CLASSES = sorted((Path(__file__).resolve().parents[3] / "manifests/overlays/eks/classes").glob("*.yaml"))
PLAIN = {
    "objective": {"metric": "loss", "mode": "Minimize"},
    "search": {"algorithm": {"random": {}}, "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1}}]},
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {"entrypoint": "train:loop", "image": "registry.example/train:1"},
    "storage": {"uri": "s3://example-training/team-a"},
}


def read(path: Path) -> TrainSweepClassSpec:
    return TrainSweepClassSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))["spec"])


def test_each_node_type_has_a_class() -> None:
    assert [p.stem for p in CLASSES] == ["cpu-m7i", "gpu-g5", "gpu-g6", "gpu-p4d", "gpu-p5"]


@pytest.mark.parametrize("path", CLASSES, ids=lambda p: p.stem)
def test_a_plain_sweep_of_the_class_is_admitted_and_fits_its_nodes(path: Path, tmp_path: Path) -> None:
    found = read(path)
    spec = resolve(PLAIN, found)
    assert [str(p) for p in check_class(spec, PLAIN, found, "team-a")] == []
    planned = plan(spec, gpu_limit=found.limits.gpus)
    (shape,) = planned.shapes
    assert shape.group is not None
    machine = MACHINES[shape.group.node_selector[INSTANCE_TYPE]]
    assert misfits(spec) == []
    assert shape.gpus == machine.gpus, "a node's GPUs are all used"
    assert shape.workers_per_pod == max(1, machine.gpus)
    sweep = tmp_path / "sweep.yaml"
    head = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweep", "metadata": {"name": "plain"}}
    sweep.write_text(yaml.safe_dump({**head, "spec": PLAIN}))
    assert lint([str(path), str(sweep)], found) == []


@pytest.mark.parametrize(
    ("machine", "resources", "words"),
    [
        ("g5.2xlarge", {"cpu": 8, "memory": "24Gi", "nvidia.com/gpu": 1}, "cpu: asks for 8, a pod has at most 7.41"),
        ("g5.2xlarge", {"cpu": 7, "memory": "32Gi", "nvidia.com/gpu": 1}, "memory: asks for 32Gi"),
        ("g5.2xlarge", {"cpu": 7, "memory": "24Gi", "nvidia.com/gpu": 2}, "GPUs: asks for 2, a pod has at most 1"),
        ("p5.48xlarge", {"cpu": 8, "memory": "8Gi", "vpc.amazonaws.com/efa": 33}, "vpc.amazonaws.com/efa: asks for 33"),
        ("g5.48xlarge", {"cpu": 7, "memory": "32Gi", "nvidia.com/gpu": 8}, ""),
        ("x9.42xlarge", {"cpu": 999, "memory": "1Gi"}, ""),
    ],
)
def test_a_pod_of_the_whole_machine_is_warned_of(machine: str, resources: dict[str, Any], words: str) -> None:
    group = {"name": "gpu", "resources": resources, "nodeSelector": {INSTANCE_TYPE: machine}}
    spec = resolve(
        merge(raw(), {"cluster": {"workerGroups": [group]}, "training": {"workers": {"resources": {"cpu": 1}}}}), None
    )
    found = misfits(spec)
    assert [words in message for _, message in found] == ([True] if words else [])


def test_lint_shows_it_as_a_warning_at_its_line(tmp_path: Path) -> None:
    group = {"name": "gpu", "resources": {"cpu": 8, "memory": "24Gi"}, "nodeSelector": {INSTANCE_TYPE: "g5.2xlarge"}}
    body = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweep", "metadata": {"name": "plain"},
            "spec": {**PLAIN, "cluster": {"workerGroups": [group]}}}  # fmt: skip
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(body))
    (finding,) = lint([str(file)])
    assert (finding.severity, finding.path) == (Severity.WARNING, "spec.cluster.workerGroups[0].resources")
    assert finding.line > 1
