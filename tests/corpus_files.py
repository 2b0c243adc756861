"""The corpus: YAML as people write it, each document with the verdict that it must get.

The annotation `expect` says `accepted` or the path of the refused field; `accepted, ours: PATH` where our reader and
the operator are stricter than the API server. Files named `unreadable-*` say in their first line which line is named;
`unreadable-ours-*` are files that kubectl reads and we do not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "corpus"
READABLE = sorted(p for p in FOLDER.glob("*.yaml") if not p.name.startswith("unreadable"))
UNREADABLE = sorted(FOLDER.glob("unreadable-*.yaml"))


def expected_line(path: Path) -> int:
    """The line that must be named for an unreadable file."""
    found = re.match(r"# expect: line (\d+)", path.read_text("utf-8-sig"))
    assert found, f"{path.name} does not say which line"
    return int(found.group(1))


def expectation(value: dict[str, Any]) -> tuple[str, str]:
    """What the API server and what we must say of an object: '' for accepted, else the path."""
    text = value["metadata"]["annotations"]["expect"]
    server, _, ours = text.partition(", ours: ")
    server = "" if server == "accepted" else server
    return server, ours or server
