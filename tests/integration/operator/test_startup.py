"""The operator comes before KubeRay does."""

from __future__ import annotations

import time
from pathlib import Path

from devcluster.cluster import Cluster
from tests.integration.operator.process import Operator
from tests.integration.operator.sweeps import sweep, sweep_class
from tests.integration.operator.world import PATIENCE, World
from tests.together import concurrent, long


@long
@concurrent
def test_started_before_kuberay_it_is_not_ready_ends_after_a_minute_and_then_works(world: World) -> None:
    folder = Path(world.folder) / "bare"
    folder.mkdir()
    with Cluster(name="itop-bare", control_plane_only=True) as cluster:
        bare = World(cluster, folder)
        try:
            bare.install(kuberay=False)
            bare.sweep_class(sweep_class("general", "http://127.0.0.1:1", default=True))
            with bare.operator("bare", bare.namespace("early"), TRAINSWEEP_STARTUP_SECONDS="") as operator:
                _comes_too_early(bare, operator)
        finally:
            bare.close()


def _comes_too_early(bare: World, operator: Operator) -> None:
    body = bare.submit(sweep("early", "early"))
    began = time.monotonic()
    operator.start()
    bare.until(lambda: operator.get("/readyz")[0] == 503, "not ready")
    assert operator.get("/healthz")[0] == 200
    assert operator.wait(PATIENCE) == 1, operator.tail()
    assert time.monotonic() - began >= 60
    assert "install KubeRay" in operator.tail()
    assert not (bare.sweep(body).get("status") or {}).get("conditions")
    bare.install_kuberay()
    operator.start().ready()
    bare.until(lambda: bare.rayjobs(body), "the sweep that waited is launched")


@concurrent
def test_on_sigterm_it_ends_by_itself_and_well(world: World) -> None:
    with world.operator("sigterm", world.namespace("sigterm")) as operator:
        operator.start().ready()
        operator.terminate()
        assert operator.code == 0, operator.tail()


@concurrent
def test_a_right_that_is_missing_is_named_and_ends_the_process(world: World) -> None:
    """The identity of nobody: a user whom no role is bound to."""
    env = {"TRAINSWEEP_STARTUP_SECONDS": "5", "KUBECONFIG": str(world.nobody())}
    with world.operator("rightless", "sweeps", **env) as operator:
        operator.start()
        assert operator.wait(PATIENCE) == 1, operator.tail()
        text = operator.log.read_text()
    assert "missing right: create rayjobs.ray.io in namespace sweeps" in text
    assert "missing right: update trainsweeps/status.trainsweep.io in namespace sweeps" in text
