"""Every leaf field of a spec is read by something that acts on it: a field that nothing reads is a promise not kept.

A field counts as read where a policy, renderer, plan, runtime or driver has an attribute access of its Python name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from trainsweep.api.base import ApiModel
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract.canonical import RUN_FIELDS

ROOT = Path(__file__).parents[3]
READERS = [
    *(ROOT / "operator" / "trainsweep" / name for name in ("core", "render", "plan", "runtime")),
    ROOT / "trainjobs",
]
# Read by the resolution itself, before any of the readers sees the class.
BY_RESOLVE = {"defaults"}


def leaves(model: type[ApiModel], path: str) -> Iterator[tuple[str, str]]:
    """(path, Python name) of each field that has no model below it."""
    for name, field in model.model_fields.items():
        here = f"{path}.{field.alias or name}"
        below = _model(field.annotation)
        if below is None or not below.model_fields:
            yield here, name
        else:
            yield from leaves(below, here)


def _model(annotation: Any) -> type[ApiModel] | None:
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, ApiModel) and not issubclass(annotation, Enum) else None
    return next((found for part in getattr(annotation, "__args__", ()) if (found := _model(part))), None)


@pytest.fixture(scope="module")
def attributes() -> set[str]:
    """Names of all attributes that the readers read, and of the functions that they call."""
    found: set[str] = set()
    for folder in READERS:
        for file in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    found.add(node.func.id)
    return found


@pytest.mark.parametrize(
    ("model", "path"), [(TrainSweepSpec, "spec"), (TrainSweepClassSpec, "class")], ids=["sweep", "class"]
)
def test_every_leaf_is_read(attributes: set[str], model: type[ApiModel], path: str) -> None:
    named_run = {f"spec.{'.'.join(field)}" for field in RUN_FIELDS}
    assert "run_name" in attributes, "the fields that name a run are read by whoever calls run_name"
    unread = [
        here
        for here, name in leaves(model, path)
        if name not in attributes and name not in BY_RESOLVE and here not in named_run
    ]
    assert unread == []


def test_the_walk_finds_leaves() -> None:
    found = dict(leaves(TrainSweepSpec, "spec"))
    assert found["spec.search.parameters.float.log"] == "log"
    assert found["spec.cluster.workerGroups.resources"] == "resources"
    assert found["spec.search.algorithm.grid"] == "grid"
