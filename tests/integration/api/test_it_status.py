"""Status on a real API server: the default, a full round trip, its bounds, the printed columns, explain."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from tests.bound_cases import Bound, bounds, place
from tests.integration.api.test_it_bounds import WORDS, name
from tests.integration.apiserver import BASE, ApiServer, causes
from tests.unit.api.api_samples import SPEC
from trainsweep.api import API_VERSION
from trainsweep.api.schema import structural
from trainsweep.api.status import TrainSweepStatus

PATH = f"{BASE}/namespaces/default/trainsweeps"
AT = "2026-01-02T03:04:05Z"
SCHEMA = structural(TrainSweepStatus)


def condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"about {kind}",
        "lastTransitionTime": AT,
        "observedGeneration": 1,
    }


def full(schema: dict[str, Any], key: str = "") -> Any:
    """A value for every field of a schema."""
    if "enum" in schema:
        return schema["enum"][-1]
    kind = schema["type"]
    if kind == "object":
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return {"whatever": {"is": ["kept", 1]}}
        if "additionalProperties" in schema:
            return {"lr": full(schema["additionalProperties"])}
        return {name: full(child, name) for name, child in schema["properties"].items()}
    if kind == "array":
        return [full(schema["items"])]
    if schema.get("format") == "date-time":
        return AT
    if kind == "string":
        return f"text {key}"[: schema["maxLength"]]
    return {"integer": 7, "number": 0.5, "boolean": True}[kind]


@pytest.fixture(scope="module")
def sweep(api: ApiServer) -> Iterator[dict[str, Any]]:
    api.call("DELETE", f"{PATH}/status")
    body = {
        "apiVersion": API_VERSION,
        "kind": "TrainSweep",
        "metadata": {"name": "status"},
        "spec": copy.deepcopy(SPEC),
    }
    status, made = api.call("POST", PATH, body)
    assert status == 201, made
    yield made
    api.call("DELETE", f"{PATH}/status")


def current(api: ApiServer) -> str:
    """The resourceVersion that a write must name."""
    return str(api.call("GET", f"{PATH}/status")[1]["metadata"]["resourceVersion"])


def test_a_fresh_object_is_not_taken_for_done(sweep: dict[str, Any]) -> None:
    assert sweep["status"] == {"observedGeneration": -1}


def test_a_full_status_is_read_back_equal(api: ApiServer, sweep: dict[str, Any]) -> None:
    written = full(SCHEMA)
    typed = TrainSweepStatus.model_validate(written)
    assert typed.model_dump(mode="json", by_alias=True) == written, "the sample leaves a field out"
    body = {**sweep, "status": written}
    status, answer = api.call("PUT", f"{PATH}/status/status", body, fieldValidation="Strict")
    assert status == 200, answer
    _, read = api.call("GET", f"{PATH}/status")
    assert read["status"] == written
    assert TrainSweepStatus.model_validate(read["status"]) == typed
    assert read["spec"] == sweep["spec"]


def test_an_object_s_own_write_does_not_reach_status(api: ApiServer, sweep: dict[str, Any]) -> None:
    _, now = api.call("GET", f"{PATH}/status")
    status, answer = api.call("PUT", f"{PATH}/status", {**now, "status": {"observedGeneration": 99}}, dryRun="All")
    assert status == 200
    assert answer["status"] == now["status"]


@pytest.mark.parametrize("bound", list(bounds(SCHEMA, "status")), ids=name)
def test_each_bound_of_status(api: ApiServer, sweep: dict[str, Any], bound: Bound) -> None:
    base = {**sweep, "metadata": {**sweep["metadata"], "resourceVersion": current(api)}, "status": {}}
    root = {"type": "object", "properties": {"status": SCHEMA}}

    def put(value: Any) -> list[tuple[str, str]]:
        body = place(base, root, bound.path, value)
        code, answer = api.call("PUT", f"{PATH}/status/status", body, dryRun="All", fieldValidation="Strict")
        return [] if code < 300 else causes(answer)

    path = bound.error_path or bound.path
    told = put(bound.refused)
    assert [text for at, text in told if at == path and WORDS[bound.word] in text], told
    for value in bound.accepted:
        assert put(value) == []


def test_columns_find_conditions_by_type_in_any_order(
    api: ApiServer, control_plane: Cluster, sweep: dict[str, Any]
) -> None:
    status = {
        "observedGeneration": 1,
        "attempt": 2,
        "conditions": [
            condition("Finished", "False", "Running"),
            condition("CheckpointsVerified", "Unknown", "WaitingForReceipt"),
            condition("Succeeded", "Unknown", "Verifying"),
        ],
        "trials": {"summary": "12/40"},
        "best": {"trial": "t3", "value": "0.042"},
        "pending": {"layer": "Placement", "reason": "NoNodes", "message": "none"},
    }
    body = {**sweep, "status": status}
    body["metadata"] = {**sweep["metadata"], "resourceVersion": current(api)}
    code, answer = api.call("PUT", f"{PATH}/status/status", body)
    assert code == 200, answer
    head, row = control_plane.kubectl("get", "tsw", "status").splitlines()
    assert head.split() == ["NAME", "STATE", "TRIALS", "BEST", "VERIFIED", "ATTEMPT", "AGE"]
    assert row.split()[:6] == ["status", "Verifying", "12/40", "0.042", "Unknown", "2"]
    wide = control_plane.kubectl("get", "tsw", "status", "-o", "wide")
    assert "NoNodes" in wide
    assert "trainsweep.trainsweep.io/status" in control_plane.kubectl("get", "trainsweep", "-o", "name")


@pytest.mark.parametrize("kind", ["trainsweep", "trainsweepclass", "trainsweephold"])
def test_explain_describes_every_field(control_plane: Cluster, kind: str) -> None:
    """`kubectl explain` reads the published schema: every field there has words, none is `<no description>`."""
    published = control_plane.kubectl("explain", kind, "--recursive")
    assert "<no description>" not in published
    fields = set(re.findall(r"^\s+(\w+)\t<", published, re.MULTILINE))
    if kind != "trainsweephold":
        assert len(fields) > 20


def test_explain_has_words_for_each_field_of_a_spec(api: ApiServer) -> None:
    status, published = api.call("GET", "/openapi/v3/apis/trainsweep.io/v1alpha1")
    assert status == 200
    bare: list[str] = []

    def walk(node: dict[str, Any], path: str) -> None:
        for field, child in node.get("properties", {}).items():
            if not child.get("description"):
                bare.append(f"{path}.{field}")
            walk(child, f"{path}.{field}")
        if isinstance(node.get("items"), dict):
            walk(node["items"], f"{path}[]")

    for kind in ("TrainSweep", "TrainSweepClass"):
        schema = published["components"]["schemas"][f"io.trainsweep.v1alpha1.{kind}"]
        for part in ("spec", "status"):
            if part in schema["properties"]:
                assert schema["properties"][part]["description"]
                walk(schema["properties"][part], f"{kind}.{part}")
    assert bare == []
