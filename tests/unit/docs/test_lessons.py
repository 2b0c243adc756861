"""docs/lessons.md names only tests that are there, and every lesson names one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROWS = [
    (lesson.strip(), re.findall(r"`([^`]+)`", tests))
    for lesson, tests in re.findall(
        r"^\| (.+?) \| (.+?) \|$", (ROOT / "docs/lessons.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if lesson not in ("lesson", "---")
]


def names() -> set[str]:
    """All tests by name, those in classes too."""
    return {
        node.name
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    }


def test_every_lesson_has_tests_and_they_exist():
    there = names()
    assert len(ROWS) > 30
    assert [lesson for lesson, tests in ROWS if not tests] == []
    assert [name for _, tests in ROWS for name in tests if name not in there] == []
