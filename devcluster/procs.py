"""Processes of an instance: started detached, recorded, found again by process id and start time.

A process id alone may have been given to somebody else since; with the start time and the boot it belongs to, it is
certain. Nothing is ever ended by name.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.errors import DevClusterError


@dataclass(frozen=True)
class Handle:
    """A process that can be recognised again."""

    pid: int
    start: str

    @property
    def alive(self) -> bool:
        """It runs or is stopped; a zombie counts as dead."""
        return start_time(self.pid) == self.start


def boot_id() -> str:
    """Which boot of the machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> str | None:
    """Start of a process in clock ticks since a boot, with that boot; None when it is gone or a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # our own dead child would stay a zombie
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A killed leader is a zombie while its threads still end, and until the last has, its ports are held.
    gone = fields[0] in "ZX" and int(fields[17]) <= 1
    return None if gone else f"{boot_id()}/{fields[19]}"


_NICE = "-10"
"""Weighs as nine processes: pods weigh as sixteen, and beside three clusters of them an API server that got a fiftieth of
two cores lost its watchers their leases. A real control plane does not share its cores with pods."""


def _first(name: str) -> list[str]:
    """What begins the call of a program that goes before pods; what containerd starts would inherit it."""
    return ["nice", "-n", _NICE] if os.geteuid() == 0 and name != "containerd" else []


class Processes:
    """The recorded processes of one instance: one file a process in ``<state>/procs``."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "procs"
        self._logs = state / "logs"

    def names(self) -> list[str]:
        """Every process recorded, in the order of their first start."""
        records = self._folder.glob("*.json") if self._folder.exists() else ()
        return [path.stem for path in sorted(records, key=lambda path: json.loads(path.read_text())["order"])]

    def _record(self, name: str) -> dict[str, Any]:
        try:
            data: dict[str, Any] = json.loads((self._folder / f"{name}.json").read_text())
        except FileNotFoundError as error:
            known = ", ".join(self.names()) or "none"
            raise DevClusterError(f"no process '{name}' in this cluster; there are: {known}.") from error
        return data

    def handle(self, name: str) -> Handle:
        """The process last started under a name.

        Raises:
            DevClusterError: none was.
        """
        record = self._record(name)
        return Handle(int(record["pid"]), str(record["start"]))

    def alive(self, name: str) -> bool:
        """A process of that name was started and has not ended."""
        return name in self.names() and self.handle(name).alive

    def start(self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Handle:
        """Start a program in a session of its own, its output appended to ``logs/<name>.log``, and record it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        order = self._record(name)["order"] if name in self.names() else len(self.names())
        return self._spawn(name, [str(part) for part in argv], dict(env or {}), order)

    def restart(self, name: str) -> Handle:
        """Start a program again as it was started before; a live one is left alone."""
        if self.alive(name):
            return self.handle(name)
        record = self._record(name)
        return self._spawn(name, record["argv"], record["env"], record["order"])

    def _spawn(self, name: str, argv: list[str], env: dict[str, str], order: int) -> Handle:
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [*_first(name), *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                env={**_without_proxies(os.environ), **env},
            )
        child.returncode = 0  # it outlives this interpreter on purpose: no ResourceWarning
        handle = Handle(child.pid, start_time(child.pid) or "dead")
        record = {"pid": handle.pid, "start": handle.start, "argv": argv, "env": env, "order": order}
        fresh = self._folder / f"{name}.new"
        fresh.write_text(json.dumps(record, indent=1))
        fresh.rename(self._folder / f"{name}.json")
        return handle

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a live process; to a dead one, nothing."""
        handle = self.handle(name)
        if handle.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(handle.pid, number)

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The end of a program's log."""
        path = self._logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def check(self, name: str) -> None:
        """Raise when a program has ended that should run, with the end of its log."""
        if not self.alive(name):
            raise DevClusterError(f"{name} ended; the end of {self._logs / f'{name}.log'}:\n{self.log_tail(name)}")


def _without_proxies(env: Mapping[str, str]) -> dict[str, str]:
    """These programs only talk to each other, never through a company's proxy."""
    return {key: value for key, value in env.items() if not key.lower().endswith("_proxy")}


def end(handles: Sequence[Handle], grace: float) -> None:
    """End processes: SIGTERM, then SIGKILL to what is left after ``grace`` seconds (0: SIGKILL at once)."""
    if grace > 0:
        _signal_all(handles, signal.SIGTERM)
        _signal_all(handles, signal.SIGCONT)  # a paused one could not end
        if _gone(handles, grace):
            return
    _signal_all(handles, signal.SIGKILL)
    if not _gone(handles, 10):
        left = [handle.pid for handle in handles if handle.alive]
        raise DevClusterError(f"processes {left} survive SIGKILL: they hang in the kernel; see /proc/<pid>/stack.")


def _signal_all(handles: Sequence[Handle], number: signal.Signals) -> None:
    for handle in handles:
        if handle.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(handle.pid, number)


def _gone(handles: Sequence[Handle], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while any(handle.alive for handle in handles):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def holder_of_port(port: int) -> str:
    """Who listens on a TCP port, as "name (pid)"; empty when it cannot be seen."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError):
            for line in Path(table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{columns[9]}]")
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(link) in inodes for link in (folder / "fd").iterdir()):
                return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
    return ""
