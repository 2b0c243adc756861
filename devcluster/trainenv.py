"""The training environment: Ray, torch and friends as one virtual environment that pods mount read-only.

On PyPI torch for Linux is the CUDA build: 6 GB. In an image it would cost minutes and 6 GB a build; here it is
installed once, and a pod sees it by hostPath at the path it was made for (a virtual environment does not move), with
the interpreter that it links to.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.errors import DevClusterError
from devcluster.golang import need_disk
from devcluster.paths import SOURCE, cache_dir
from devcluster.report import step
from devcluster.shell import run

LOCK_FILE = SOURCE.parent / "requirements" / "dev.txt"
"""The lock of everything: the examples train on data that ships with packages beyond the `train` extra."""


@dataclass(frozen=True)
class TrainEnv:
    """A ready training environment.

    Attributes:
        path: the virtual environment.
        python: its interpreter.
        mounts: host folders that a pod mounts read-only at the same paths to run it.
    """

    path: Path
    python: Path
    mounts: tuple[Path, ...]

    def volumes(self) -> list[dict[str, Any]]:
        """The ``volumes`` of a pod that runs this environment."""
        return [
            {"name": f"trainenv-{number}", "hostPath": {"path": str(path), "type": "Directory"}}
            for number, path in enumerate(self.mounts)
        ]

    def volume_mounts(self) -> list[dict[str, Any]]:
        """The ``volumeMounts`` of a container that runs this environment."""
        return [
            {"name": f"trainenv-{number}", "mountPath": str(path), "readOnly": True}
            for number, path in enumerate(self.mounts)
        ]


def ensure(requirements: Path = LOCK_FILE) -> TrainEnv:
    """Return the environment of a hash-locked requirements file, installing it first where the cache lacks it.

    It is the one that `make` runs the tests with: one installation, in the cache, keyed by the lock.

    Raises:
        DevClusterError: the lock is missing, the disk is short or the installation failed.
    """
    if not requirements.is_file():
        raise DevClusterError(f"{requirements} is missing: it pins what pods train with.")
    key = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    path = cache_dir() / "venv" / f"dev-{key}"
    if not (path / ".ready").exists():
        need_disk(cache_dir())
        with step("installing the training environment (Ray, torch; 7 GB, once)", "1 to 4 min"):
            # Compiled, since the mount is read-only: every pod would compile torch and Ray on import again.
            run([SOURCE.parent / ".ci" / "venv", _interpreter(), path, requirements], timeout=1800)
    return TrainEnv(path=path, python=path / "bin" / "python", mounts=(path, Path(sys.base_prefix).resolve()))


def _interpreter() -> Path:
    return Path(sys.base_prefix).resolve() / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
