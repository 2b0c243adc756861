"""The schedules that ever failed: each is run again with every test run, as it was when it failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.simulation.schedule import Schedule, from_json, to_json

FILE = Path(__file__).with_name("kept.jsonl")


@dataclass(frozen=True)
class Kept:
    """One line of the list."""

    found: str
    """What it found, in a few words."""
    schedule: Schedule


def kept() -> Iterator[Kept]:
    """All of them."""
    for line in FILE.read_text().splitlines():
        if line.strip():
            data: dict[str, Any] = json.loads(line)
            yield Kept(data["found"], from_json(data["schedule"]))


def line_of(found: str, schedule: Schedule) -> str:
    """The line to add for a schedule."""
    return json.dumps({"found": found, "schedule": to_json(schedule)}, separators=(",", ":"))
