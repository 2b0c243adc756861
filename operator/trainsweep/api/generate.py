"""Writes what is generated from the typed models: CRDs for kustomize and for the chart, and the reference.

`python -m trainsweep.api.generate` writes, `--check` only compares and fails on drift.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from trainsweep.api.crd import all_crds
from trainsweep.api.reference import reference

ROOT = Path(__file__).resolve().parents[3]
NOTE = "# Generated from operator/trainsweep/api by `make generate`; change the models, not this file.\n"


def _dump(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=130, allow_unicode=True)


def _kustomization(names: list[str]) -> str:
    return _dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names})


def _chart_template(text: str) -> str:
    """The CRD as a template of the chart: Helm never upgrades `crds/`, and must not delete a CRD with the release."""
    if "{{" in text:
        raise ValueError("a description holds '{{', which Helm would run")
    head, tail = text.split("metadata:\n", 1)
    # Helm's word for it and Argo CD's: with a CRD every object of its kind would go.
    annotations = "    helm.sh/resource-policy: keep\n    argocd.argoproj.io/sync-options: Prune=false,Delete=false\n"
    keep = f"metadata:\n{{{{- if .Values.crds.keep }}}}\n  annotations:\n{annotations}{{{{- end }}}}\n"
    return f"{NOTE}{{{{- if .Values.crds.enabled }}}}\n{head}{keep}{tail}{{{{- end }}}}\n"


def files() -> dict[Path, str]:
    """Every generated file, by its path below the root of the project."""
    out: dict[Path, str] = {}
    names = []
    for crd in all_crds():
        name = f"trainsweep.io_{crd['spec']['names']['plural']}.yaml"
        text = _dump(crd)
        names.append(name)
        out[Path("manifests/crd") / name] = NOTE + text
        out[Path("charts/trainsweep/templates/crds") / name] = _chart_template(text)
    out[Path("manifests/crd/kustomization.yaml")] = NOTE + _kustomization(names)
    out[Path("docs/reference/api.md")] = reference()
    return out


def write_or_check(
    files: dict[Path, str], what: str | None, arguments: list[str] | None = None, root: Path = ROOT
) -> int:
    """The command of everything that generates files: writes them, or with `--check` says which differ.

    Args:
        files: text by path below `root`.
        what: the command's own description.
        arguments: of the command line, None for the process's own.
        root: of the project.

    Returns:
        The exit code: 1 where a file is out of date.
    """
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is out of date")
    check = parser.parse_args(arguments).check
    stale = 0
    for path, text in files.items():
        target = root / path
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{path} is out of date: run `make generate`", file=sys.stderr)
            stale = 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    return stale


def main(arguments: list[str] | None = None) -> int:
    """See write_or_check."""
    return write_or_check(files(), __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
