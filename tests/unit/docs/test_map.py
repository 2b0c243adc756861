"""The map of the tree in CONTRIBUTING.md is true: what it names is there, and what is there it names."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.chart.conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def mapped() -> set[str]:
    """Paths of the map, by their indentation."""
    block = re.search(r"## The tree\n\n```\n(.*?)```", TEXT, re.DOTALL)
    assert block is not None
    parents: list[str] = []
    found = set()
    for line in block[1].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        for name in re.split(r",\s+", re.split(r"\s{2,}", line.strip())[0]):
            path = "/".join([*parents[:depth], name.rstrip("/")])
            found.add(path)
        parents = [*parents[:depth], name.rstrip("/")]
    return found


def test_what_the_map_names_is_there():
    for path in mapped():
        assert (ROOT / path).exists(), path


def test_every_package_and_folder_is_on_the_map():
    paths = mapped()
    packages = {f"operator/trainsweep/{p.parent.name}" for p in (ROOT / "operator/trainsweep").glob("*/__init__.py")}
    assert packages <= paths
    # git keeps no empty folders, so neither does the map
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] not in "._" and any(p.iterdir())}
    shown = {Path(path).parts[0] for path in paths}
    assert folders - {"build", "dist", "node_modules"} <= shown


def test_every_command_that_is_named_is_one():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for page in ("CONTRIBUTING.md", "README.md"):
        used = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE))
        assert used
        assert used <= targets, page


def test_every_layer_of_the_tests_is_in_the_table():
    for folder in (ROOT / "tests").iterdir():
        if folder.is_dir() and folder.name not in ("corpus", "__pycache__"):
            assert f"`tests/{folder.name}/" in TEXT, folder.name
