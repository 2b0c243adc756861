"""Rendering the chart with the real helm, without a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.tools import helm

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts/trainsweep"
NAMESPACE = "operators"

Objects = list[dict[str, Any]]


@pytest.fixture(scope="session")
def helm_run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs helm and returns what it said, also where it refused."""
    program = str(helm())

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, cwd=ROOT)

    return run


@pytest.fixture(scope="session")
def template(
    helm_run: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`helm template` with values given as a dict."""
    folder = tmp_path_factory.mktemp("values")

    def run(
        values: dict[str, Any] | None = None, release: str = "trainsweep", served: str = ""
    ) -> subprocess.CompletedProcess[str]:
        file = folder / "values.yaml"
        file.write_text(json.dumps(values or {}), encoding="utf-8")
        more = ["--api-versions", served] if served else []
        return helm_run("template", release, str(CHART), "--namespace", NAMESPACE, "--values", str(file), *more)

    return run


@pytest.fixture(scope="session")
def render(template: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Objects]:
    """The objects that the chart makes of some values."""

    def run(values: dict[str, Any] | None = None, release: str = "trainsweep", served: str = "") -> Objects:
        done = template(values, release, served)
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.safe_load_all(done.stdout) if item]

    return run
