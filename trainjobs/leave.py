"""The end of `ray start --block` in a head pod that is being stopped.

KubeRay starts Ray through a shell, which is process 1 and does not pass SIGTERM on: a head without a driver would idle
until its termination grace is over (measured: 30 of 30 s). Once the driver has ended, the hook ends Ray itself.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

PROC = Path("/proc")


def block_process(proc: Path = PROC) -> int | None:
    """Id of the process that runs `ray start --block`, None where there is none."""
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        # The shell has the whole line as one word; Ray's own process has the words apart.
        if b"start" in words and any(w == b"--block" or w.startswith(b"--block=") for w in words):
            return int(folder.name)
    return None


def end_ray() -> bool:
    """Asks Ray on this machine to end; it stops its own processes. Says whether there was one to ask."""
    found = block_process()
    if found is None:
        return False
    os.kill(found, signal.SIGTERM)
    return True
