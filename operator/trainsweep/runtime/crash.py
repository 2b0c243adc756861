"""Named points at which a test lets the process die, to prove that dying there changes the outcome of nothing.

Set `TRAINSWEEP_CRASH_AT` to a point, and `TRAINSWEEP_CRASH_ONCE_FILE` to a file that is made by the first death: with
the file there, the next process lives on.
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
    """Ends the process as SIGKILL would, if this point was asked for and no marker file says that it has happened."""
    if os.environ.get("TRAINSWEEP_CRASH_AT") != point:
        return
    marker = os.environ.get("TRAINSWEEP_CRASH_ONCE_FILE")
    if marker:
        if Path(marker).exists():
            return
        Path(marker).touch()
    sys.stderr.write(f"crash point {point}\n")
    sys.stderr.flush()
    os._exit(137)
