"""One real cluster with Kueue and two GPUs; TrainSweep as of "One real sweep" on it, upgraded while a sweep runs."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devcluster import sweeps
from devcluster.cluster import Cluster
from tests.e2e.lab import Lab
from tests.platform.queues import SPACES, objects
from tests.together import Background, is_concurrent

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "690b551"
"""Commit of the first release candidate: what is upgraded from."""
LIVE = "upgraded"
"""The sweep that runs across the upgrade."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that need nothing of each other go first, together, the one whose cluster runs already before all.

    Real pods take their time; what a test waits for has a limit of its own that says what was missing.
    """
    items.sort(key=lambda item: (not is_concurrent(item), is_concurrent(item) and "upgrade" not in item.path.name))
    for item in items:
        if "tests/platform" in str(item.path):
            item.add_marker(pytest.mark.timeout(1500))


@dataclass
class Upgraded:
    """The upgraded cluster; what lived before the upgrade, and right after it, by uid."""

    lab: Lab
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)


def lives(lab: Lab) -> dict[str, Any]:
    """The sweep, its RayJob, cluster and pods: identities and restarts."""
    found = lab.get(LIVE)
    assert found is not None
    out: dict[str, Any] = {"sweep": found.body["metadata"]["uid"], "spec": found.body["spec"]}
    for kind in ("rayjobs", "rayclusters", "trainsweepholds"):
        out[kind] = sorted(item["metadata"]["uid"] for item in lab.items(kind, LIVE))
    out["pods"] = sorted(
        (pod["metadata"]["uid"], sum(c["restartCount"] for c in pod["status"].get("containerStatuses", [])))
        for pod in lab.items("pods", LIVE)
    )
    return out


def tree_before(folder: Path) -> Path:
    """The project as of that commit."""
    archive = folder / "before.tar"
    done = subprocess.run(
        ["git", "archive", "--output", str(archive), BEFORE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"this test needs the history of the repository (git fetch --unshallow): {done.stderr}"
    with tarfile.open(archive) as files:
        files.extractall(folder / "tree", filter="data")
    return folder / "tree"


@pytest.fixture(scope="session")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    """The cluster with the queues of both teams, after an upgrade under a sweep that runs."""
    with Cluster(os.environ.get("TRAINSWEEP_PLATFORM_CLUSTER", "platform"), with_kueue=True) as cluster:
        cluster.set_gpus(4)
        found = Upgraded(Lab(cluster))
        lab = found.lab
        tree = tree_before(tmp_path_factory.mktemp("before"))
        old = sweeps.build_images(cluster, tree, "before")
        sweeps.build_images(cluster)
        sweeps.install(cluster, chart=tree / "charts/trainsweep", image=old.operator)
        lab.loops()
        lab.apply(LIVE, {"training": {"image": old.train, "config": {"epochs": 60, "seconds": 1.5}}})
        for space in SPACES:
            lab.namespace(space)
        sweeps.apply(cluster, *objects())
        lab.reported(LIVE)
        found.before = lives(lab)
        sweeps.install(cluster)
        found.after = lives(lab)
        yield found


@pytest.fixture(scope="session")
def background(request: pytest.FixtureRequest, upgraded: Upgraded) -> Iterator[Background]:
    """The concurrent tests: two Ray clusters at a time is what two cores start without failing their probes."""
    made = Background(request.session.items, upgraded, workers=2)
    yield made
    made.close()


@pytest.fixture(scope="session")
def lab(upgraded: Upgraded) -> Lab:
    """The upgraded cluster."""
    return upgraded.lab


def kubectl_json(lab: Lab, *args: str) -> Any:
    """An object or a list, decoded."""
    return json.loads(lab.cluster.kubectl("get", *args, "-o", "json"))
