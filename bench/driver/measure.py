"""CPU seconds of a process with all its descendants (a control group), and the memory of its tree."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

V1, V2 = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
CLOCK = os.sysconf("SC_CLK_TCK")


class Group:
    """A control group that counts CPU time: also that of daemons and of processes that ended long ago."""

    def __init__(self, name: str) -> None:
        self.place = (V1 if V1.is_dir() else V2) / f"{name}-{os.getpid()}"
        self.place.mkdir()

    def seconds(self) -> float:
        usage = self.place / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        fields = dict(line.split() for line in (self.place / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6

    def pids(self) -> list[int]:
        return [int(line) for line in (self.place / "cgroup.procs").read_text().split()]

    def end(self) -> None:
        """Ends every process in it, and the group."""
        for _ in range(100):
            pids = self.pids()
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        with contextlib.suppress(OSError):
            self.place.rmdir()


@dataclass
class Cost:
    """What a run took."""

    wall: float
    cpu: float
    head_mib: float
    """Most memory (PSS) at one moment of everything but training workers."""
    code: int


def _is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"RayTrainWorker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _pss(pid: int) -> float:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0


def run(
    command: list[str],
    *,
    env: dict[str, str],
    cwd: Path,
    log: Path,
    limit: float,
    beside: Callable[[], None] | None = None,
) -> Cost:
    """Runs a command to its end in a group of its own. `beside` is called every half a second."""
    group = Group("trainsweep-bench")
    most = [0.0]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(3.0):
            most[0] = max(most[0], sum(_pss(pid) for pid in group.pids() if not _is_worker(pid)))

    def join() -> None:
        (group.place / "cgroup.procs").write_text(str(os.getpid()))

    started = time.monotonic()
    thread = threading.Thread(target=sample, daemon=True)
    try:
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, env=env, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=join
            )
            thread.start()
            while process.poll() is None:
                if time.monotonic() - started > limit:
                    process.kill()
                    raise TimeoutError(f"{command[:4]} took more than {limit} s: {log}")
                if beside is not None:
                    beside()
                time.sleep(0.5)
        wall = time.monotonic() - started
        return Cost(wall, group.seconds(), most[0], process.returncode)
    finally:
        done.set()
        group.end()
