"""The port guide's target is a sweep that can be applied, and what it says about other kinds is what lint says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from trainsweep.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PORT = (ROOT / "docs/howto/port.md").read_text(encoding="utf-8")
LOOP = (ROOT / "docs/reference/loop.md").read_text(encoding="utf-8")


def yaml_blocks() -> list[dict]:
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PORT, re.DOTALL)]


def test_the_same_experiment_stands_there_in_every_kind():
    kinds = [block["kind"] for block in yaml_blocks()]
    assert kinds == ["TrainSweep", "Experiment", "OptimizationJob"]


def lint(block: dict, folder: Path):
    file = folder / "file.yaml"
    file.write_text(yaml.safe_dump(block))
    return CliRunner().invoke(app, ["lint", str(file)])


def test_the_target_is_accepted(tmp_path: Path):
    (sweep,) = [block for block in yaml_blocks() if block["kind"] == "TrainSweep"]
    found = lint(sweep, tmp_path)
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize("kind", ["Experiment", "OptimizationJob"])
def test_c9_a_foreign_kind_is_named(tmp_path: Path, kind):
    (block,) = [b for b in yaml_blocks() if b["kind"] == kind]
    found = lint(block, tmp_path)
    assert found.exit_code != 0
    assert kind in found.output
    assert "TrainSweep" in found.output


@pytest.mark.parametrize("kind", ["Experiment", "OptimizationJob"])
def test_numbers_are_those_of_the_target(kind):
    (block,) = [b for b in yaml_blocks() if b["kind"] == kind]
    text = yaml.safe_dump(block)
    for number in ("0.001", "0.03", "8", "16", "32"):
        assert f"'{number}'" in text or f'"{number}"' in text, number


def test_the_helpers_that_are_named_exist():
    import trainjobs
    from trainjobs import checkpoint

    for name in re.findall(r"`trainjobs\.([a-zA-Z_]+)\(", LOOP):
        assert name in trainjobs._PUBLIC, name
    for name in ("save", "read", "check", "load"):
        assert callable(getattr(checkpoint, name))
    assert set(trainjobs._PUBLIC) <= set(re.findall(r"`trainjobs\.([a-zA-Z_]+)\(", LOOP))
