"""What is shipped for Argo CD and Flux: scripts and ConfigMap agree, examples are safe, Flux's checks say what kstatus says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cel
import pytest
import yaml

from tests.unit.argocd.lifecycle import STATES, body
from tests.unit.argocd.tools import run_lua

ROOT = Path(__file__).resolve().parents[3]
ARGOCD, FLUX = ROOT / "manifests/argocd", ROOT / "manifests/flux"
UP = {"running", "verifying", "mending", "stopping", "suspending"}
"""States in which the sweep is admitted and its cluster is up."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]


def one(path: Path, kind: str) -> dict[str, Any]:
    (found,) = [item for item in documents(path) if item["kind"] == kind]
    return found


@pytest.mark.parametrize("name", ["argocd-cm", "argocd-cm-admitted"])
def test_the_config_map_holds_what_argo_cd_reads(name: str) -> None:
    data = one(ARGOCD / f"{name}.yaml", "ConfigMap")["data"]
    assert all(key.startswith("resource.customizations.") for key in data)
    script = ARGOCD / ("trainsweep.io/TrainSweep" if name == "argocd-cm" else "admitted") / "health.lua"
    assert data["resource.customizations.health.trainsweep.io_TrainSweep"] == script.read_text(encoding="utf-8")
    actions = yaml.safe_load(data["resource.customizations.actions.trainsweep.io_TrainSweep"])
    obj = body(STATES["running"].make())
    assert set(run_lua(actions["discovery.lua"], obj)) == {one["name"] for one in actions["definitions"]}
    quiet = yaml.safe_load(data["resource.customizations.ignoreResourceUpdates.trainsweep.io_TrainSweep"])
    for pointer in quiet["jsonPointers"]:
        top, field = pointer.strip("/").split("/")
        assert field in obj[top], pointer


@pytest.mark.parametrize("name", STATES)
def test_the_opt_in_health_is_healthy_once_the_cluster_runs(name: str) -> None:
    state, obj = STATES[name], body(STATES[name].make())
    found = run_lua((ARGOCD / "admitted/health.lua").read_text(encoding="utf-8"), obj)["status"]
    if name == "deleting":
        return  # Argo CD does not ask its script then
    if state.health == "Progressing":
        assert found == ("Healthy" if name in UP else "Progressing")
    else:
        assert found == state.health


def test_sweeps_and_operator_are_apart() -> None:
    operator = one(ARGOCD / "applications/operator.yaml", "Application")["spec"]
    sweeps = one(ARGOCD / "applications/sweeps.yaml", "ApplicationSet")["spec"]["template"]["spec"]
    assert operator["source"]["path"] == "charts/trainsweep"
    assert (ROOT / operator["source"]["path"]).is_dir()
    assert operator["destination"]["namespace"] != sweeps["destination"]["namespace"]
    assert "SkipDryRunOnMissingResource=true" in sweeps["syncPolicy"]["syncOptions"]
    project = one(ARGOCD / "applications/project.yaml", "AppProject")["spec"]
    kinds = {item["kind"] for item in project["namespaceResourceWhitelist"] if item["group"] == "trainsweep.io"}
    assert kinds == {"TrainSweep"}
    assert "clusterResourceWhitelist" not in project
    assert sweeps["destination"] in project["destinations"]
    assert sweeps["source"]["repoURL"] in project["sourceRepos"]


def test_the_values_of_the_examples_are_values_of_the_chart(template: Any) -> None:
    for values in (
        one(ARGOCD / "applications/operator.yaml", "Application")["spec"]["source"]["helm"]["valuesObject"],
        one(FLUX / "operator.yaml", "HelmRelease")["spec"]["values"],
    ):
        done = template(values)
        assert done.returncode == 0, done.stderr


def flux(checks: dict[str, str], obj: dict[str, Any]) -> str:
    """Flux's own order: in progress, failed, current; nothing of these is in progress."""
    for word in ("inProgress", "failed", "current"):
        if cel.evaluate(checks[word], obj):
            return {"inProgress": "InProgress", "failed": "Failed", "current": "Current"}[word]
    return "InProgress"


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("current", ["when it succeeded", "when it runs"])
def test_the_checks_of_flux(name: str, current: str) -> None:
    text = (FLUX / "sweeps.yaml").read_text(encoding="utf-8")
    (checks,) = one(FLUX / "sweeps.yaml", "Kustomization")["spec"]["healthCheckExprs"]
    assert (checks["apiVersion"], checks["kind"]) == ("trainsweep.io/v1alpha1", "TrainSweep")
    if current == "when it succeeded":
        commented = next(line for line in text.splitlines() if line.strip().startswith("#   current:"))
        checks["current"] = commented.split("current:", 1)[1].strip()
    obj, state = body(STATES[name].make()), STATES[name]
    expected = "InProgress" if state.kstatus == "Terminating" else state.kstatus
    if current == "when it runs" and name in UP | {"deleting"}:
        expected = "Current"
    assert flux(checks, obj) == expected
