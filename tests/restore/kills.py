"""Ending processes of a running driver, as nodes, kernels and impatient people do: with SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def children() -> dict[int, list[int]]:
    """Process ids by their parent's."""
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(folder.name))
    return found


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    below, out, todo = children(), [], [pid]
    while todo:
        one = todo.pop()
        out.append(one)
        todo += below.get(one, [])
    return out


def title(pid: int) -> str:
    """A process's command line; Ray's own processes show their class there."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def named(root: int, word: str) -> list[int]:
    """Descendants whose title has a word."""
    return [pid for pid in tree(root) if word in title(pid)]


def kill(pids: list[int]) -> None:
    """SIGKILL; what has ended meanwhile is fine."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
