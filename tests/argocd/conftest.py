"""One real cluster, TrainSweep on it, and a real Argo CD with our health and actions beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from devcluster import sweeps
from devcluster.cluster import Cluster
from tests.argocd.argo import Argo
from tests.e2e.lab import Lab
from tests.platform.conftest import ROOT
from tests.together import Background, is_concurrent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The table, whose cluster has no pods, while those that need nothing but their own sweep run together; then these.

    Last is the one that changes Argo CD's settings. Real pods take their time; what a test waits for has a limit of its own
    that says what was missing.
    """
    items.sort(key=lambda item: (item.path.name != "test_argocd_table.py", not is_concurrent(item)))
    for item in items:
        if "tests/argocd" in str(item.path):
            item.add_marker(pytest.mark.timeout(1500))


@dataclass
class Pair:
    """The cluster and its Argo CD."""

    lab: Lab
    argo: Argo


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both, with the ConfigMap that we ship."""
    shipped = yaml.safe_load((ROOT / "manifests/argocd/argocd-cm.yaml").read_text(encoding="utf-8"))["data"]
    with Cluster(os.environ.get("TRAINSWEEP_ARGOCD_CLUSTER", "argocd")) as cluster:
        sweeps.build_images(cluster)
        sweeps.install(cluster)
        cluster.install_argocd(settings={**shipped, "application.resourceTrackingMethod": "annotation"})
        lab = Lab(cluster)
        lab.loops()
        yield Pair(lab, Argo(cluster, tmp_path_factory.mktemp("git") / "sweeps"))


@pytest.fixture(scope="session")
def background(request: pytest.FixtureRequest) -> Iterator[Background]:
    """The concurrent tests: two Ray clusters at a time is what two cores start without failing their probes."""
    items = request.session.items
    pair = request.getfixturevalue("pair") if any(is_concurrent(item) for item in items) else None
    made = Background(items, pair, workers=2)
    yield made
    made.close()
