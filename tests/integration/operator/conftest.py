"""One cluster and one operator for all tests that need no other; see `world` for what surrounds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.integration.operator.sweeps import sweep_class
from tests.integration.operator.world import World
from tests.together import Background

# What the shared operator serves; a test that looks at all requests of a namespace has one of its own.
MAIN, TEAM_A, TEAM_B, BUDGET = SHARED = ("sweeps", "team-a", "team-b", "budget")
PATIENCE = 900
"""Seconds for one test: it may wait for what others do at the same time on two cores."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The default time-out is meant for tests that run alone."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """API server, garbage collector, store, doubles of KubeRay and of the driver, and an operator for `SHARED`."""
    with Cluster(name="itop", control_plane_only=True, s3=True) as cluster:
        made = World(cluster, Path(tmp_path_factory.mktemp("operator")))
        try:
            made.install()
            made.sweep_class(sweep_class("general", cluster.s3_endpoint, default=True))
            made.operator("main", *(made.namespace(n) for n in SHARED)).start().ready()
            yield made
        finally:
            made.close()


@pytest.fixture(scope="session")
def background(request: pytest.FixtureRequest, world: World) -> Iterator[Background]:
    """The concurrent tests, all started at once."""
    made = Background(request.session.items, world, workers=8)
    yield made
    made.close()
