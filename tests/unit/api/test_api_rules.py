"""The CEL rules of the CRDs, run offline on their own text; tests/integration/api asks a real API server the same."""

from __future__ import annotations

import pytest

from tests.cel_cases import CASES, OLD_SELF, Key, rules_of
from tests.unit.api.api_samples import changed
from trainsweep.api.schema import spec_schema
from trainsweep.api.validate import VALIDATIONS, pattern, violations


def test_every_rule_has_a_case() -> None:
    offline = {key for key, rule in rules_of(spec_schema()) if "oldSelf" not in rule["rule"]}
    assert offline == set(CASES)
    fixed = {path for (path, _), rule in rules_of(spec_schema()) if "oldSelf" in rule["rule"]}
    assert fixed == set(OLD_SELF)


@pytest.mark.parametrize("key", sorted(CASES), ids=lambda key: f"{key[0]}: {key[1]}")
def test_a_rule_refuses_its_case_and_takes_the_neighbour(key: Key) -> None:
    case = CASES[key]
    for refused in case.refused:
        assert violations(changed(refused), spec_schema()) == [(f"spec.{case.path}", key[1])]
    for accepted in case.accepted:
        assert violations(changed(accepted), spec_schema()) == []


def test_class_defaults_hold_the_rules_of_their_parts() -> None:
    schema = spec_schema("TrainSweepClass")
    bad = {"defaults": {"deadlines": {"runSeconds": 20, "totalSeconds": 10}}}
    assert violations(bad, schema) == [("spec.defaults.deadlines.runSeconds", "must not be greater than totalSeconds")]
    assert VALIDATIONS not in schema["properties"]["defaults"]


def test_patterns_end_where_re2_ends_them() -> None:
    assert pattern("^a$").search("a\n") is None
    assert pattern(r"^\d+$").search("٣") is None
    assert pattern(r"a\$").search("a$") is not None
