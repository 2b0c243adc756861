"""The control group above all pods of an instance, in every hierarchy the machine has (v1, v2 or both)."""

import contextlib
import os
import time
from pathlib import Path

from devcluster.errors import DevClusterError


def roots() -> list[Path]:
    """Where control group hierarchies are mounted."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return [Path(point) for _, point, kind, *_ in lines if kind in ("cgroup", "cgroup2")]


def create(name: str) -> None:
    """Make the group everywhere; kubelet refuses to start below one that is missing.

    Raises:
        DevClusterError: the machine does not let us.
    """
    for root in roots():
        try:
            controllers = root / "cgroup.controllers"
            if controllers.exists():  # v2: a controller works below only when its parent hands it down
                _hand_down(root, controllers.read_text().split())
            (root / name).mkdir(exist_ok=True)
            if controllers.exists():
                _hand_down(root / name, (root / name / "cgroup.controllers").read_text().split())
            _copy_cpuset(root, root / name)
            _weigh(root / name)
        except OSError as error:
            raise DevClusterError(
                f"cannot make a control group in {root} ({error}): in a container, run it privileged."
            ) from error


def _hand_down(group: Path, controllers: list[str]) -> None:
    for controller in controllers:
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _copy_cpuset(parent: Path, child: Path) -> None:
    """A v1 cpuset group begins empty and takes no process until it has been given CPUs and memory."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (child / file).exists() and (parent / file).exists() and not (child / file).read_text().strip():
            with contextlib.suppress(OSError):
                (child / file).write_text((parent / file).read_text().strip())


def _weigh(group: Path) -> None:
    """Let all pods together weigh as 16 processes, not as one.

    The group competes with every other process of the machine as a single one: beside a busy test runner, a build and
    a dozen helpers (load 25 on 2 cores) Ray got so little that it gave up starting within its own 30 s.
    """
    for file, value in (("cpu.shares", "16384"), ("cpu.weight", "1600")):
        if (group / file).exists():
            with contextlib.suppress(OSError):
                (group / file).write_text(value)


def members(name: str) -> set[int]:
    """Processes in the group and below, in any hierarchy."""
    found: set[int] = set()
    for root in roots():
        for folder in _below(root / name):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in (folder / "cgroup.procs").read_text().split() if line != "0")
    return found


def _below(top: Path) -> list[Path]:
    """A group and all groups in it; those that go while they are read are left out."""
    return [Path(folder) for folder, _, _ in os.walk(top)]


def remove(name: str) -> None:
    """Remove the group and all below it.

    Raises:
        DevClusterError: something in it resists for 10 s.
    """
    until = time.monotonic() + 10
    while True:
        left = [root / name for root in roots() if (root / name).exists()]
        for top in left:
            for folder in sorted(_below(top), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        left = [top for top in left if top.exists()]
        if not left:
            return
        if time.monotonic() > until:
            raise DevClusterError(f"{left[0]} cannot be removed: processes {sorted(members(name))} are still in it.")
        time.sleep(0.1)
