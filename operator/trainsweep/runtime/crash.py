"""Named points at which a test lets the process die, to prove that dying there changes the outcome of nothing.

Set `TRAINSWEEP_CRASH_AT` to points with commas between them, and `TRAINSWEEP_CRASH_ONCE_FILE` to a file to which each
death adds its point: the next process lives on there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

POINTS = (
    "after-finalizer",
    "after-status",
    "after-hold",
    "after-post",
    "while-verifying",
    "after-verdict",
    "after-ttl",
)


def crash_point(point: str) -> None:
    """Ends the process as SIGKILL would, if this point was asked for and no file says that it has happened."""
    if point not in os.environ.get("TRAINSWEEP_CRASH_AT", "").split(","):
        return
    file = os.environ.get("TRAINSWEEP_CRASH_ONCE_FILE")
    if file:
        deaths = Path(file)
        before = deaths.read_text() if deaths.exists() else ""
        if point in before.splitlines():
            return
        deaths.write_text(f"{before}{point}\n")
    sys.stderr.write(f"crash point {point}\n")
    sys.stderr.flush()
    os._exit(137)
