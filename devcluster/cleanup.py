"""Removing an instance without a trace, live or dead.

What belongs to it is found by what it was given: recorded process ids, processes in its control group, shims that
talk to its containerd's socket, mounts under its folder, its link and its namespace. Nothing else is touched.
"""

import contextlib
import os
import shutil
import time
from pathlib import Path

from devcluster import cgroups, network, paths
from devcluster import instance as instances
from devcluster.errors import DevClusterError
from devcluster.instance import Instance
from devcluster.procs import Handle, Processes, end, start_time
from devcluster.shell import succeeds

_NODE_PROGRAMS = ("kubelet", "kube-proxy", "coredns")
_LEFTOVER_FOLDERS = (
    # fixed paths of kubelet and CNI; removed only when empty and not there before we came
    Path("/var/lib/kubelet/device-plugins"),
    Path("/var/lib/kubelet"),
    Path("/var/log/containers"),
    Path("/var/lib/cni/results"),
    Path("/var/lib/cni"),
    Path("/run/containerd/s"),
    Path("/run/containerd/fifo"),
    Path("/run/containerd"),
)


def note_existing(state: Path) -> None:
    """Record which of the fixed folders were there before the first node starts, so that they stay."""
    if not _other_nodes(state):
        present = [str(folder) for folder in _LEFTOVER_FOLDERS if folder.exists()]
        _noted().write_text("\n".join(present))


def _noted() -> Path:
    return paths.state_root() / "folders-before"


def _other_nodes(state: Path) -> bool:
    """Another full cluster is recorded: it uses the fixed folders too."""
    others = [record.parent for record in paths.state_root().glob("*/instance.json") if record.parent != state]
    return any(found and not found.control_plane_only for found in (instances.load(other.name) for other in others))


def remove(name: str) -> None:
    """End every process of an instance, undo its mounts and links, delete its folder.

    Raises:
        DevClusterError: a process or a mount resists; the message says which.
    """
    state = paths.state_dir(name)
    found = instances.load(name)
    processes = Processes(state)
    recorded = {program: processes.handle(program) for program in processes.names()}
    # kubelet first: it would start pods again, and proxy and DNS only log errors while the rest goes
    end([handle for program, handle in recorded.items() if program in _NODE_PROGRAMS], grace=0)
    if found and not found.control_plane_only:
        _end_pods(found)
    # the data is thrown away: nobody gains from a graceful end, which takes the API server seconds
    end(list(recorded.values()), grace=0)
    _unmount_all(state)
    if found and not found.control_plane_only:
        cgroups.remove(found.cgroup)
        network.down(found)
        _remove_strays(found)
    shutil.rmtree(state, ignore_errors=False)


def _end_pods(instance: Instance) -> None:
    """Kill containers where they live and then their shims: no grace period, no API calls."""
    for _ in range(5):
        shims = _shims(instance)
        pids = cgroups.members(instance.cgroup)
        handles = [Handle(pid, start) for pid in pids if (start := start_time(pid))]
        if not shims and not handles:
            return
        end(handles, grace=0)
        end(shims, grace=0)


def _shims(instance: Instance) -> list[Handle]:
    """Containerd's shims of this instance: their command line names its socket."""
    socket = f"{instance.state}/".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if Path(words[0].decode()).name.startswith("containerd-shim") and any(
                word.startswith(socket) for word in words[1:]
            ):
                pid = int(folder.name)
                if start := start_time(pid):
                    found.append(Handle(pid, start))
    return found


def _unmount_all(folder: Path) -> None:
    for _ in range(10):
        mounts = mounts_under(folder)
        if not mounts:
            return
        for mount in mounts:
            if not succeeds(["umount", mount]):
                succeeds(["umount", "--lazy", mount])
        time.sleep(0.05)
    raise DevClusterError(f"cannot unmount {mounts_under(folder)[0]}: find who uses it with `fuser -vm` and end that.")


def mounts_under(folder: Path) -> list[str]:
    """Mount points at or below a folder, the deepest and latest first."""
    prefix, found = f"{folder}/", []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = line.split()[1].replace("\\040", " ")
        if point == str(folder) or point.startswith(prefix):
            found.append(point)
    return list(reversed(found))


def _remove_strays(instance: Instance) -> None:
    """Files that containerd, kubelet and CNI write to fixed places outside the state folder."""
    state = str(instance.state)
    for link in Path("/var/log/containers").glob("*"):
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(f"{state}/"):
                link.unlink()
    results = Path("/var/lib/cni/results")
    for file in results.glob(f"{instance.cgroup}-*-eth0"):
        sandbox = file.name.removeprefix(f"{instance.cgroup}-").removesuffix("-eth0")
        (results / f"cni-loopback-{sandbox}-lo").unlink(missing_ok=True)
        file.unlink(missing_ok=True)
    # A shim's socket has a fixed folder; its bundle, in our state, has recorded the name.
    for file in instance.state.glob("containerd/state/io.containerd.runtime.v2.task/*/*/address"):
        socket = Path(file.read_text().strip().removeprefix("unix://"))
        if str(socket).startswith("/run/containerd/s/"):
            socket.unlink(missing_ok=True)
    if _other_nodes(instance.state) or not _noted().exists():
        return
    before = _noted().read_text().splitlines()
    for folder in _LEFTOVER_FOLDERS:
        if str(folder) not in before:
            _remove_left_behind(folder)
    _noted().unlink()


def _remove_left_behind(folder: Path) -> None:
    if folder.name == "device-plugins" and folder.exists():
        for file in folder.iterdir():
            file.unlink()  # the folder was not there before our kubelet came
    with contextlib.suppress(OSError):
        folder.rmdir()
