"""GPUs as an extended resource on the node: real scheduling, real autoscaling, no device."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import sweeps
from tests.e2e.lab import PATIENCE, Lab
from tests.together import concurrent, long

GPU = "nvidia.com/gpu"
ON_GPUS: dict[str, Any] = {
    "training": {"workers": {"count": 1, "resources": {"cpu": 1, "memory": "1Gi", GPU: 1}}},
    "cluster": {"workerGroups": None, "autoscaling": {"idleSeconds": 10}},
}


@pytest.fixture(scope="module", autouse=True)
def two_gpus(lab: Lab) -> Iterator[None]:
    """Two GPUs on the node, and none afterwards."""
    lab.cluster.set_gpus(2)
    yield
    lab.cluster.set_gpus(0)


def workers(lab: Lab, name: str) -> list[dict[str, Any]]:
    return [p for p in lab.items("pods", name) if p["metadata"]["labels"].get("ray.io/node-type") == "worker"]


def test_group_is_derived_and_scaled_from_none_to_the_maximum_and_back(lab: Lab) -> None:
    name = "gpus"
    lab.apply(name, ON_GPUS)
    lab.wait(name, "a worker pod", lambda s: bool(workers(lab, name)))
    [job] = lab.items("rayjobs", name)
    [group] = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (0, 2)
    assert group["rayStartParams"]["num-gpus"] == "1"
    seen = 0
    sweep = None
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        pods = workers(lab, name)
        seen = max(seen, len(pods))
        for pod in pods:
            resources = pod["spec"]["containers"][0]["resources"]
            assert resources["requests"][GPU] == resources["limits"][GPU] == "1"
            start = next(
                e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "KUBERAY_GEN_RAY_START_CMD"
            )
            assert "--num-gpus=1" in start
        sweep = lab.get(name)
        assert sweep is not None
        if lab.progress(sweep).get("best"):
            break
        time.sleep(1)
    assert sweep is not None
    assert 1 <= seen <= 2
    with lab.operator_away():
        lab.receipted(sweep)
        until = time.monotonic() + PATIENCE
        while workers(lab, name):
            assert time.monotonic() < until, "idle GPU workers go while the head waits for its verdict"
            time.sleep(1)
        assert lab.head(name)["status"]["phase"] == "Running"
    done = lab.finished(name)
    assert done.condition("Succeeded")[0] == "True", done
    lab.released(name)


@concurrent
@long
def test_ceiling_of_the_class_cuts_the_group(lab: Lab) -> None:
    klass = sweeps.default_class(lab.cluster, "one-gpu")
    klass["metadata"]["annotations"] = {}
    klass["spec"]["limits"] = {"gpus": 1}
    sweeps.apply(lab.cluster, klass)
    name = "capped"
    lab.apply(name, ON_GPUS | {"className": "one-gpu"})
    lab.wait(name, "its RayJob", lambda s: bool(lab.items("rayjobs", name)))
    [job] = lab.items("rayjobs", name)
    [group] = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["maxReplicas"] == 1
    file = json.loads(
        job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]["annotations"][
            "trainsweep.io/sweep-file"
        ]
    )
    assert file["spec"]["trials"]["maxConcurrent"] == 1, "the driver runs as many trials as the pods can hold"
    lab.delete(name, wait=True)


def test_third_gpu_waits_with_its_reason(lab: Lab) -> None:
    name = "three-gpus"
    three = {"workers": {"count": 3, "resources": {"cpu": 1, "memory": "1Gi", GPU: 1}}}
    lab.apply(name, {**ON_GPUS, "trials": {"maxConcurrent": 1}, "training": three})
    waiting = lab.wait(name, "a reason", lambda s: (s.status.get("pending") or {}).get("layer") == "Placement")
    assert GPU in waiting.status["pending"]["message"]
    assert "without enough" in waiting.status["pending"]["message"]
    columns = lab.cluster.kubectl("get", "trainsweep", name, "-o", "wide")
    assert waiting.status["pending"]["reason"] in columns
    lab.delete(name, wait=True)
