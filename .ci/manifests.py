"""Writes `manifests/default` from the chart, so that Helm and kustomize install the same thing.

`python .ci/manifests.py` writes, `--check` only compares and fails on drift. The chart is the source: change it, not
the files that it makes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from devcluster.shell import run  # noqa: E402
from devcluster.tools import helm  # noqa: E402

NOTE = "# Generated from charts/trainsweep by `.ci/manifests.py`; change the chart, not this file.\n"
NAMESPACE = "trainsweep-system"
FILES = {
    "rbac.yaml": ("ServiceAccount", "ClusterRole", "ClusterRoleBinding"),
    "deployment.yaml": ("Deployment", "Service"),
}
# What installs the objects is not Helm here.
HELM_ONLY = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def _clean(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _clean(value) for key, value in item.items() if key not in HELM_ONLY}
    if isinstance(item, list):
        return [_clean(value) for value in item]
    return item


def files() -> dict[Path, str]:
    """Every generated file, by its path below the root of the project."""
    chart = ROOT / "charts/trainsweep"
    text = run([helm(), "template", "trainsweep", chart, "--namespace", NAMESPACE, "--set", "crds.enabled=false"])
    objects = [_clean(item) for item in yaml.safe_load_all(text) if item]
    out: dict[Path, str] = {}
    for name, kinds in FILES.items():
        chosen = [item for item in objects if item["kind"] in kinds]
        chosen.sort(key=lambda item: kinds.index(item["kind"]))
        out[Path("manifests/default") / name] = NOTE + yaml.safe_dump_all(chosen, sort_keys=False, width=130)
    left = {item["kind"] for item in objects} - {kind for kinds in FILES.values() for kind in kinds}
    if left:
        raise SystemExit(f"the chart renders {sorted(left)}, which manifests/default leaves out: add them to FILES")
    return out


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks; the exit code is 1 when a file is out of date."""
    parser = argparse.ArgumentParser(prog=".ci/manifests.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    check = parser.parse_args(arguments).check
    stale = 0
    for path, text in files().items():
        target = ROOT / path
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{path} is out of date: run `python .ci/manifests.py`", file=sys.stderr)
            stale = 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    return stale


if __name__ == "__main__":
    sys.exit(main())
