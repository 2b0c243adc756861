"""Files by which a process on the same machine stops the driver and waits for its end: the head pod's preStop hook.

The hook runs `python -m trainjobs stop` with the environment of the container, so it finds the same sweep file.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path


def folder(attempt_id: str) -> Path:
    """Where the flags of an attempt lie on this machine."""
    base = os.environ.get("TRAINSWEEP_STATE_DIR") or str(Path(tempfile.gettempdir()) / "trainsweep")
    return Path(base) / attempt_id


class Flags:
    """The flags of one attempt."""

    def __init__(self, attempt_id: str) -> None:
        self._folder = folder(attempt_id)

    def begin(self) -> None:
        """The driver is there. Flags of an earlier process are dropped."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "stop").unlink(missing_ok=True)
        (self._folder / "pid").write_text(str(os.getpid()))

    def end(self) -> None:
        """The driver has written its last word."""
        (self._folder / "pid").unlink(missing_ok=True)

    def stop_requested(self) -> bool:
        """Whether somebody asked to stop."""
        return (self._folder / "stop").exists()

    def _alive(self) -> bool:
        try:
            os.kill(int((self._folder / "pid").read_text()), 0)
        except (OSError, ValueError):
            return False
        return True

    def stop_and_wait(self, seconds: float) -> bool:
        """Asks the driver to stop and waits for its end.

        Returns:
            Whether no driver runs any more. True at once where none ran.
        """
        if not self._alive():
            return True
        (self._folder / "stop").touch()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self._alive():
                return True
            time.sleep(0.5)
        return False
