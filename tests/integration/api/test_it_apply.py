"""Server-side apply by a GitOps tool: what was applied is what is read back, and a second apply changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.integration.apiserver import BASE, ApiServer
from tests.unit.api.api_samples import changed
from trainsweep.api import API_VERSION
from trainsweep.api.resolve import resolve
from trainsweep.contract.canonical import run_name

PATH = f"{BASE}/namespaces/default/trainsweeps"
APPLY = "application/apply-patch+yaml"

RESOURCES = [
    {"cpu": 8, "memory": "65536Mi", "nvidia.com/gpu": "1"},
    {"cpu": "8", "memory": "64G"},
    {"cpu": 1, "memory": 1_000_000_000},
]
FULL = {
    "search.parameters[1].categorical.values": [64, 0.5, "wide", True, "1e-5"],
    "search.initialPoints": [{"lr": 0.01, "width": "wide"}, {"lr": 0.02, "width": True}],
    "training.config": {"a": 1, "b": [1.5, None, {"c": "d"}], "e": 1e-30, "f": 1e30, "g": 4503599627370497},
    "training.env": [{"name": "A", "value": "$(B)"}, {"name": "B", "value": ""}],
    "training.workers.resources": {"cpu": 4, "memory": "1.5Gi"},
    "cluster.workerGroups": [
        {"name": "gpu", "resources": {"cpu": 8}, "podTemplate": {"metadata": {"labels": {"a": "b"}}}}
    ],
    "cluster.head.tolerations": [{"key": "a", "operator": "Exists"}],
    "storage.uri": "s3://bucket/p",
    "cleanup.holdSeconds": 900,
}


def apply(api: ApiServer, name: str, spec: dict[str, Any], manager: str = "argocd-controller") -> dict[str, Any]:
    body = {"apiVersion": API_VERSION, "kind": "TrainSweep", "metadata": {"name": name}, "spec": spec}
    status, answer = api.call(
        "PATCH",
        f"{PATH}/{name}",
        body,
        content_type=APPLY,
        fieldManager=manager,
        force="true",
        fieldValidation="Strict",
    )
    assert status in (200, 201), answer
    return dict(answer)


@pytest.mark.parametrize("changes", [FULL, *[{"training.workers.resources": r} for r in RESOURCES]], ids=range(4))
def test_D4_a_second_apply_is_no_change(api: ApiServer, changes: dict[str, Any]) -> None:
    api.call("DELETE", f"{PATH}/applied")
    spec = changed(changes)
    first, second, third = (apply(api, "applied", copy.deepcopy(spec)) for _ in range(3))
    assert first["spec"] == spec
    # The second write stores the default of status, which the first one left to each reader; then nothing is written.
    assert third["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    for answer in (first, second):
        answer["metadata"].pop("resourceVersion")
    assert second == first
    api.call("DELETE", f"{PATH}/applied")


def test_D4_the_operator_s_status_and_finalizer_are_no_difference(api: ApiServer) -> None:
    api.call("DELETE", f"{PATH}/trained")
    made = apply(api, "trained", changed(FULL))
    made["metadata"]["finalizers"] = ["trainsweep.io/attempt"]
    status, made = api.call("PUT", f"{PATH}/trained", made, fieldManager="trainsweep")
    assert status == 200
    made["status"] = {"observedGeneration": 1, "attempt": 1}
    status, made = api.call("PUT", f"{PATH}/trained/status", made, fieldManager="trainsweep")
    assert status == 200
    again = apply(api, "trained", changed(FULL))
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    again["metadata"]["finalizers"] = []
    api.call("PUT", f"{PATH}/trained", again)
    api.call("DELETE", f"{PATH}/trained")


def test_D4_equal_amounts_and_spellings_are_one_run(api: ApiServer) -> None:
    names = set()
    for i, (low, cpu) in enumerate(((1e-5, 8), (0.00001, "8"))):
        api.call("DELETE", f"{PATH}/spelled-{i}")
        spec = changed({"search.parameters[0].float.min": low, "training.workers.resources": {"cpu": cpu}})
        stored = apply(api, f"spelled-{i}", spec)["spec"]
        names.add(run_name(stored))
        resolve(stored, None)
        api.call("DELETE", f"{PATH}/spelled-{i}")
    assert len(names) == 1


def test_a_hold_is_empty_and_takes_nothing(api: ApiServer) -> None:
    hold: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "TrainSweepHold", "metadata": {"name": "h"}}
    assert api.try_create(hold) == []
    assert api.try_create({**hold, "spec": {}}) == []
    ((_, text),) = api.try_create({**hold, "spec": {"a": 1}})
    assert 'unknown field "spec.a"' in text


def test_a_class_takes_partial_defaults_and_nothing_of_a_sweep(api: ApiServer) -> None:
    body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "TrainSweepClass", "metadata": {"name": "c"}}
    defaults = {"storage": {"uri": "s3://b-1/p"}, "cleanup": {"holdSeconds": 60}, "training": {"image": "a"}}
    assert api.try_create({**body, "spec": {"defaults": defaults}}) == []
    for word in ("objective", "search", "trials", "className", "runKey"):
        ((_, text),) = api.try_create({**body, "spec": {"defaults": {word: {}}}})
        assert f'unknown field "spec.defaults.{word}"' in text
