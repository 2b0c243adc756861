"""docs/reference/timings.md says what the code has, and leaves nothing out."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import trainsweep.core
from trainsweep.core import line, usage

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "timings.md"
ROWS = re.findall(r"^\| .+ \| (\d+) \| `([\w.]+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
UNITS = {"line.HOUR", "usage.HOUR"}
"""Nothing that is waited for."""


@pytest.mark.parametrize(("value", "name"), ROWS, ids=[name for _, name in ROWS])
def test_the_page_has_the_codes_value(value: str, name: str) -> None:
    module, constant = name.rsplit(".", 1)
    assert getattr(importlib.import_module(f"trainsweep.core.{module}"), constant) == int(value)


def test_every_number_of_the_core_is_on_the_page() -> None:
    found = set()
    for info in pkgutil.walk_packages(trainsweep.core.__path__, "trainsweep.core."):
        module = importlib.import_module(info.name)
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        for constant in re.findall(r"^([A-Z][A-Z_]+)(?:: \w+)? = ", text, re.MULTILINE):
            if isinstance(getattr(module, constant), int | float):
                found.add(f"{info.name.removeprefix('trainsweep.core.')}.{constant}")
    assert found - UNITS == {name for _, name in ROWS}
    assert usage.HOUR == line.HOUR == 3600
