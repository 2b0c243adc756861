"""A matrix of values, each rendered and held against the schemas of every Kubernetes that we support."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.chart.conftest import ROOT
from tests.unit.chart.schemas import VERSIONS, problems
from tests.unit.chart.test_chart_render import INSTALLS
from tests.unit.chart.test_manifests import kustomize

pytestmark = pytest.mark.slow

__all__ = ["kustomize"]
FOLDERS = sorted(
    str(path.parent.relative_to(ROOT))
    for path in [*ROOT.glob("manifests/**/kustomization.yaml"), *ROOT.glob("examples/**/kustomization.yaml")]
    if "argocd" not in path.parts
)


@pytest.fixture(scope="module")
def objects(render: Any) -> list[dict[str, Any]]:
    """All different objects of all installs; the CRDs are looked at by a real API server."""
    found: dict[str, dict[str, Any]] = {}
    for values in INSTALLS.values():
        for item in render({**values, "crds": {"enabled": False}}):
            found[json.dumps(item, sort_keys=True)] = item
    return list(found.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_chart_suits_every_kubernetes(objects: list[dict[str, Any]], version: str) -> None:
    assert {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Role"} <= {item["kind"] for item in objects}
    assert [text for item in objects for text in problems(item, version)] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_bases_suit_the_oldest_and_the_newest(kustomize: Any, folder: str) -> None:
    objects = [o for o in kustomize(folder) if o["kind"] != "CustomResourceDefinition"]
    for version in (VERSIONS[0], VERSIONS[-1]):
        assert [text for item in objects for text in problems(item, version)] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_check_can_fail(render: Any, version: str) -> None:
    (deployment,) = [o for o in render() if o["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["nodeSelecter"] = {}
    deployment["spec"]["replicas"] = "one"
    assert len(problems(deployment, version)) == 2
