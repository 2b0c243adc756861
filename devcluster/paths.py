"""Where things lie: the cache (built once, shared) and the state of each instance (thrown away)."""

import os
import re
from pathlib import Path

from devcluster.errors import DevClusterError

SOURCE = Path(__file__).resolve().parent
"""This package's folder; the Go module files lie in ``go/`` below it."""

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")


def cache_dir() -> Path:
    """Folder for what is built or fetched once: ``$TRAINSWEEP_CACHE`` or ``~/.cache/trainsweep``."""
    given = os.environ.get("TRAINSWEEP_CACHE")
    folder = Path(given) if given else Path.home() / ".cache" / "trainsweep"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def state_root() -> Path:
    """Folder with one folder an instance, under ``$XDG_STATE_HOME`` or ``~/.local/state``."""
    given = os.environ.get("XDG_STATE_HOME")
    base = Path(given) if given else Path.home() / ".local" / "state"
    folder = base / "trainsweep" / "devcluster"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def state_dir(name: str) -> Path:
    """Folder of one instance; it may not exist.

    Raises:
        DevClusterError: the name is not usable as a folder, link and cgroup name.
    """
    if not _NAME.fullmatch(name):
        raise DevClusterError(
            f"'{name}' cannot name a cluster: use at most 20 lower-case letters, digits and '-', "
            "beginning with a letter and not ending with '-'."
        )
    folder = state_root() / name
    # Unix sockets' paths end at 107 bytes; ours needs 30 below this folder.
    if len(str(folder)) > 75:
        raise DevClusterError(
            f"{folder} is too long for Unix sockets below it: set XDG_STATE_HOME to a shorter folder."
        )
    return folder
