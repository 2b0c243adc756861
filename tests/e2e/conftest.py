"""The one cluster of the e2e tests: real KubeRay, real Ray pods, a real S3 server, TrainSweep installed by its chart."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devcluster import sweeps
from devcluster.cluster import Cluster
from tests.e2e.lab import Lab
from tests.together import Background, is_concurrent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that need nothing but their own sweep go first, together; then, one by one, those that touch the operator.

    Real pods take their time; what a test waits for has a limit of its own that says what was missing.
    """
    items.sort(key=lambda item: not is_concurrent(item))
    for item in items:
        if "tests/e2e" in str(item.path):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The cluster `e2e` (or one of yours that is up: TRAINSWEEP_E2E_CLUSTER=name)."""
    with Cluster(os.environ.get("TRAINSWEEP_E2E_CLUSTER", "e2e")) as cluster:
        sweeps.build_images(cluster)
        sweeps.install(cluster)
        found = Lab(cluster)
        found.loops()
        yield found


@pytest.fixture(scope="session")
def background(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Background]:
    """The concurrent tests: two Ray clusters at a time is what two cores start without failing their probes."""
    made = Background(request.session.items, lab, workers=2)
    yield made
    made.close()
