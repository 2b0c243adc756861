"""What the machine must have: root rights and Debian's packages."""

import os
import shutil
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.report import step
from devcluster.shell import run

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "mount": "mount",
}


def require_root(purpose: str) -> None:
    """Raise unless this process is root.

    Raises:
        DevClusterError: it is not.
    """
    if os.geteuid() != 0:
        raise DevClusterError(
            f"{purpose} needs root (network namespace, mounts, cgroups): run it with sudo, or use "
            "--control-plane-only, or a cluster of your own by KUBECONFIG."
        )


def cni_folder() -> Path:
    """Folder with the CNI plugins bridge, host-local, portmap and loopback.

    Raises:
        DevClusterError: none has them.
    """
    for folder in CNI_FOLDERS:
        if all((folder / plugin).exists() for plugin in ("bridge", "host-local", "portmap", "loopback")):
            return folder
    raise DevClusterError("no CNI plugins in /usr/lib/cni or /opt/cni/bin: install containernetworking-plugins.")


def missing_packages() -> list[str]:
    """Debian packages whose programs this machine lacks."""
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [package for program, package in _PACKAGES.items() if not shutil.which(program, path=search)]
    if not any((folder / "bridge").exists() for folder in CNI_FOLDERS):
        missing.append("containernetworking-plugins")
    return missing


def ensure_packages() -> None:
    """Install what is missing with apt-get.

    Raises:
        DevClusterError: not root, no apt-get, or apt-get failed.
    """
    missing = missing_packages()
    if not missing:
        return
    listed = " ".join(missing)
    if not shutil.which("apt-get"):
        raise DevClusterError(f"this machine lacks what Debian packages as: {listed}. Install these and try again.")
    require_root(f"installing {listed}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(f"installing Debian packages: {listed}", "half a minute"):
        run(["apt-get", "update"], env=quiet, hint="The machine's apt sources must be reachable.")
        run(["apt-get", "install", "--yes", "--no-install-recommends", *missing], env=quiet)
