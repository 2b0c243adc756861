"""The end of `ray start --block` in a pod that is being stopped.

KubeRay starts Ray through a shell, which is process 1 and does not pass SIGTERM on: a pod without work would idle, and
hold its GPUs, until its termination grace is over (measured: 30 of 30 s). The head's hook ends Ray once the driver has
ended; a worker's hook once the head is gone, and until then lets the training reach its next report.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
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


def head_answers(address: str, timeout: float = 2.0) -> bool:
    """Whether anything listens at the head's address (`host:port`); an address of another form counts as no answer."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return False
    try:
        with socket.create_connection((host, int(port)), timeout):
            return True
    except OSError:
        return False


def leave_after_head(
    address: str, seconds: float, *, answers: Callable[[str], bool] = head_answers, pause: float = 0.5
) -> bool:
    """Waits until the head is gone, for at most some seconds, and ends Ray here. Says whether the head was gone.

    Two unanswered calls a pause apart are a head that is gone: one may be lost on the way.
    """
    until = time.monotonic() + seconds
    silent = 0
    while time.monotonic() < until:
        silent = 0 if answers(address) else silent + 1
        if silent == 2:
            break
        time.sleep(pause)
    end_ray()
    return silent == 2
