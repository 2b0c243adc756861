"""Every CEL rule on a real API server: refused cases with field path and words, accepted neighbours, fixed fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cel_cases import CASES, MUTABLE, OLD_SELF, STORED, Changes, Key, rules_of
from tests.integration.apiserver import BASE, ApiServer, causes
from tests.unit.api.api_samples import changed, put
from trainsweep.api import API_VERSION
from trainsweep.api.crd import NAME_RULES
from trainsweep.api.schema import spec_schema

FIXED = {path: rule["message"] for (path, _), rule in rules_of(spec_schema()) if "oldSelf" in rule["rule"]}


def sweep(spec: dict[str, Any], name: str = "rule") -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "TrainSweep", "metadata": {"name": name}, "spec": spec}


def test_every_rule_of_the_crd_has_a_case() -> None:
    assert {key for key, rule in rules_of(spec_schema()) if "oldSelf" not in rule["rule"]} == set(CASES)
    assert set(FIXED) == set(OLD_SELF)


@pytest.mark.parametrize("key", sorted(CASES), ids=lambda key: f"{key[0]}: {key[1]}")
def test_a_rule_refuses_its_case_and_takes_the_neighbour(api: ApiServer, key: Key) -> None:
    case = CASES[key]
    for refused in case.refused:
        told = api.try_create(sweep(changed(refused)))
        assert [field for field, _ in told] == [f"spec.{case.path}"]
        assert told[0][1].endswith(key[1])
    for accepted in case.accepted:
        assert api.try_create(sweep(changed(accepted))) == []


@pytest.mark.parametrize(
    ("name", "rule"), [("a" * 37, 0), ("a.b", 1), ("7up", 1)], ids=["37 characters", "a dot", "a digit first"]
)
def test_E7_the_name_rules(api: ApiServer, name: str, rule: int) -> None:
    ((field, text),) = api.try_create(sweep(changed({}), name))
    assert field == "metadata.name"
    assert text.endswith(NAME_RULES[rule].message)


def test_E7_names_at_the_edge(api: ApiServer) -> None:
    assert api.try_create(sweep(changed({}), "a" * 36)) == []
    generated = sweep(changed({}))
    generated["metadata"] = {"generateName": "a" * 31}
    assert api.try_create(generated) == []
    generated["metadata"] = {"generateName": "a" * 32}
    assert [field for field, _ in api.try_create(generated)] == ["metadata.name"]


CHANGES = [(path, change) for path, changes in OLD_SELF.items() for change in changes]


class TestFixedFields:
    @pytest.fixture(scope="class")
    @staticmethod
    def stored(api: ApiServer) -> dict[str, Any]:
        path = f"{BASE}/namespaces/default/trainsweeps"
        api.call("DELETE", f"{path}/fixed")
        status, answer = api.call("POST", path, sweep(changed(STORED), "fixed"), fieldValidation="Strict")
        assert status == 201, answer
        return dict(answer)

    @staticmethod
    def update(api: ApiServer, stored: dict[str, Any], changes: Changes) -> list[tuple[str, str]]:
        new = copy.deepcopy(stored)
        for path, value in changes.items():
            put(new["spec"], path, value)
        path = f"{BASE}/namespaces/default/trainsweeps/fixed"
        status, answer = api.call("PUT", path, new, dryRun="All", fieldValidation="Strict")
        return [] if status < 300 else causes(answer)

    @pytest.mark.parametrize(("path", "change"), CHANGES, ids=[f"{p}: {c}" for p, c in CHANGES])
    def test_a_change_removal_or_addition_is_refused(
        self, api: ApiServer, stored: dict[str, Any], path: str, change: Changes
    ) -> None:
        told = self.update(api, stored, change)
        assert told, "a fixed field was changed"
        assert (f"spec.{path}", True) in [(field, text.endswith(FIXED[path])) for field, text in told]

    @pytest.mark.parametrize("change", MUTABLE, ids=str)
    def test_what_may_change_may(self, api: ApiServer, stored: dict[str, Any], change: Changes) -> None:
        assert self.update(api, stored, change) == []

    def test_a_late_addition_of_an_absent_field_is_refused(self, api: ApiServer, stored: dict[str, Any]) -> None:
        path = f"{BASE}/namespaces/default/trainsweeps"
        api.call("DELETE", f"{path}/bare")
        status, bare = api.call("POST", path, sweep(changed({}), "bare"))
        assert status == 201
        for field, value in (("runKey", "b"), ("storage", {"uri": "s3://bucket/p"}), ("checkpoints", {})):
            new = copy.deepcopy(bare)
            new["spec"][field] = value
            status, answer = api.call("PUT", f"{path}/bare", new, dryRun="All")
            assert status == 422, field
            assert [f for f, _ in causes(answer)] == [f"spec.{field}"]
        api.call("DELETE", f"{path}/bare")

    def test_labels_finalizers_and_status_never_meet_the_rules(self, api: ApiServer, stored: dict[str, Any]) -> None:
        new = copy.deepcopy(stored)
        new["metadata"]["labels"] = {"a": "b"}
        new["metadata"]["finalizers"] = ["trainsweep.io/attempt"]
        path = f"{BASE}/namespaces/default/trainsweeps/fixed"
        assert api.call("PUT", path, new, dryRun="All")[0] == 200
