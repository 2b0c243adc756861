"""The training environment: Ray, torch and friends as one virtual environment that pods mount read-only.

On PyPI torch for Linux is the CUDA build: 6 GB. In an image it would cost minutes and 6 GB a build; here it is
installed once, and a pod sees it by hostPath at the path it was made for (a virtual environment does not move), with
the interpreter that it links to.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.errors import DevClusterError
from devcluster.golang import need_disk
from devcluster.locks import locked
from devcluster.paths import SOURCE, cache_dir
from devcluster.report import step
from devcluster.shell import run

UV = "0.13.9"
LOCK_FILE = SOURCE.parent / "requirements" / "train.txt"


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
    """Return the environment for a hash-locked requirements file, installing it first where the cache lacks it.

    Args:
        requirements: the lock; its hash and the interpreter's version name the folder in the cache.

    Raises:
        DevClusterError: the lock is missing, the disk is short or the installation failed.
    """
    if not requirements.is_file():
        raise DevClusterError(f"{requirements} is missing: it pins what pods train with.")
    key = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    path = cache_dir() / "train" / key
    done = path / ".complete"
    if not done.exists():
        with locked(cache_dir() / "locks" / "train.lock", "installing the training environment"):
            if not done.exists():
                need_disk(cache_dir())
                with step("installing the training environment (Ray, torch; 6 GB, once)", "1 to 4 min"):
                    _install(path, requirements)
                done.touch()
    python = path / "bin" / "python"
    return TrainEnv(path=path, python=python, mounts=(path, Path(sys.base_prefix).resolve()))


def _install(path: Path, requirements: Path) -> None:
    # A virtual environment's scripts name its own folder, so it is made in place; `.complete` says that it is whole.
    shutil.rmtree(path, ignore_errors=True)
    uv = _uv()
    interpreter = Path(sys.base_prefix).resolve() / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    run([uv, "venv", "--quiet", "--python", interpreter, path])
    environment = {**os.environ, **_index(), "UV_HTTP_TIMEOUT": "600", "UV_CACHE_DIR": str(cache_dir() / "uv")}
    argv: list[str | Path] = [uv, "pip", "install", "--python", path / "bin" / "python"]
    # The mount is read-only: uncompiled, every pod would compile torch and Ray on import again (8 s on 2 cores).
    argv += ["--compile-bytecode", "--require-hashes", "--requirements", requirements]
    installed = subprocess.run([str(part) for part in argv], env=environment, stdout=sys.stderr, check=False)
    if installed.returncode != 0:
        raise DevClusterError("installing the training environment failed; see uv's lines above.")


def _index() -> dict[str, str]:
    """The machine's package index as pip knows it, for uv, which does not read pip's configuration."""
    names = {"global.index-url": "UV_DEFAULT_INDEX", "global.extra-index-url": "UV_INDEX"}
    found: dict[str, str] = {}
    for key, variable in names.items():
        if variable in os.environ:
            continue
        done = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", key], capture_output=True, text=True, check=False
        )
        value = " ".join(done.stdout.split())
        if done.returncode == 0 and value:
            found[variable] = value
    return found


def _uv() -> Path:
    own = shutil.which("uv")
    if own:
        return Path(own)
    folder = cache_dir() / "tools" / f"uv-{UV}"
    if not (folder / "bin" / "uv").exists():
        with locked(cache_dir() / "locks" / "uv.lock", "fetching uv"):
            if not (folder / "bin" / "uv").exists():
                shutil.rmtree(folder, ignore_errors=True)
                run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, f"uv=={UV}"])
    return folder / "bin" / "uv"
