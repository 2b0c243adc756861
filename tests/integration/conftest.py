"""A real etcd and kube-apiserver with our CRDs, one for the whole session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster
from tests.integration.apiserver import ApiServer

CRD = Path(__file__).parents[2] / "manifests" / "crd"


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """The control plane; TRAINSWEEP_IT_CLUSTER names another instance, so that two people can work side by side."""
    with Cluster(name=os.environ.get("TRAINSWEEP_IT_CLUSTER", "it"), control_plane_only=True) as cluster:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", CRD)
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield cluster


@pytest.fixture(scope="session")
def api(control_plane: Cluster) -> ApiServer:
    """Raw requests to the control plane."""
    return ApiServer(control_plane.kubeconfig)
