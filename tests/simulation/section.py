"""A section of a page that a command writes: between two comments that name the command."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability" / "simulation.md"


def replaced(page: str, command: str, text: str) -> str:
    """The page with that section.

    Raises:
        ValueError: where the page has no such section.
    """
    begin, end = f"<!-- begin: written by {command} -->", f"<!-- end: written by {command} -->"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not found.search(page):
        raise ValueError(f"the page has no section {begin!r}")
    return found.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", page, count=1)


def write(command: str, text: str, page: Path = PAGE) -> None:
    """Writes the section of a command."""
    page.write_text(replaced(page.read_text(), command, text))
