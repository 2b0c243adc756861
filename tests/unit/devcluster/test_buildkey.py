"""The key of an image's inputs: it changes with what a build would take, and with nothing else."""

from pathlib import Path

import pytest

from devcluster.buildkey import build_key


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "app" / "__pycache__").mkdir(parents=True)
    (tmp_path / "app" / "main.py").write_text("print(1)\n")
    (tmp_path / "app" / "start").write_text("#!/bin/sh\n")
    (tmp_path / "app" / "__pycache__" / "main.pyc").write_text("x")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("words\n")
    (tmp_path / "Dockerfile").write_text("FROM base\nCOPY app /app\n")
    (tmp_path / ".dockerignore").write_text("# what it needs\n*\n!app\n**/__pycache__\n")
    return tmp_path


def key(context: Path, target: str | None = "app", base: str = "base:1", **arguments: str) -> str:
    return build_key(context / "Dockerfile", target, base, arguments, context)


def test_same_inputs_have_the_same_key(context: Path) -> None:
    before = key(context, A="1")
    (context / "docs" / "page.md").write_text("other words\n")
    (context / "app" / "__pycache__" / "main.pyc").write_text("y")
    assert key(context, A="1") == before


def test_every_input_changes_the_key(context: Path) -> None:
    keys = [key(context), key(context, "other"), key(context, base="base:2"), key(context, A="1"), key(context, A="2")]
    (context / "app" / "main.py").write_text("print(2)\n")
    keys.append(key(context))
    (context / "app" / "start").chmod(0o755)
    keys.append(key(context))
    (context / "app" / "main.py").rename(context / "app" / "other.py")
    keys.append(key(context))
    (context / "Dockerfile").write_text("FROM base\n")
    keys.append(key(context))
    (context / ".dockerignore").unlink()
    keys.append(key(context))
    assert len(set(keys)) == len(keys)
