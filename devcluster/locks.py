"""File locks: two processes never build, start or stop the same thing at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster.report import say


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` for the block; wait, and say so, while another holds it.

    The kernel drops the lock when the holder dies, so a killed process never leaves one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is at work on {what}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
