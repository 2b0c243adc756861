"""One cluster and one operator for all tests that need no other; see `world` for what surrounds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.integration.operator.process import Operator
from tests.integration.operator.sweeps import sweep_class
from tests.integration.operator.world import World

MAIN = "sweeps"
TEAMS = ("team-a", "team-b")


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """API server, garbage collector, store, and the doubles of KubeRay and of the driver."""
    with Cluster(name="itop", control_plane_only=True, s3=True) as cluster:
        made = World(cluster, Path(tmp_path_factory.mktemp("operator")))
        try:
            made.install()
            made.sweep_class(sweep_class("general", cluster.s3_endpoint, default=True))
            yield made
        finally:
            made.close()


@pytest.fixture(scope="session")
def operator(world: World) -> Operator:
    """The operator that most tests share; it serves the namespaces `sweeps`, `team-a` and `team-b`."""
    return world.operator("main", *(world.namespace(n) for n in (MAIN, *TEAMS))).start().ready()


@pytest.fixture
def namespace(operator: Operator) -> str:
    """The namespace of the shared operator."""
    assert operator.code is None, f"the shared operator has died:\n{operator.tail()}"
    return MAIN
