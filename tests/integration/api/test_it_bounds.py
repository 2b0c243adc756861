"""Every bound of the generated CRDs on a real API server: one value refused, by path and words, one neighbour taken.

The same values go through our offline reading, which must give the same verdict at the same path.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.bound_cases import Bound, bounds, place
from tests.cel_cases import rules_of
from tests.integration.apiserver import ApiServer
from tests.unit.api.api_samples import SPEC
from trainsweep.api import API_VERSION
from trainsweep.api.schema import spec_schema
from trainsweep.api.validate import violations

WORDS = {
    "type": "must be of type",
    "scalar": "must have at most 0 items",
    "empty": "must not validate the schema",
    "required": "Required value",
    "minimum": "should be greater than",
    "maximum": "should be less than or equal to",
    "minLength": "chars long",
    "maxLength": "Too long: may not be more than",
    "pattern": "should match",
    "enum": "Unsupported value",
    "minItems": "should have at least",
    "maxItems": "must have at most",
    "maxProperties": "must have at most",
    "duplicates": "Duplicate value",
}
ALL = [(kind, bound) for kind in ("TrainSweep", "TrainSweepClass") for bound in bounds(spec_schema(kind), "spec")]
# A bound's neighbour may break a rule over other fields (holdSeconds 10, verify time-out 600): those words are known.
RULES = {key[1] for kind in ("TrainSweep", "TrainSweepClass") for key, _ in rules_of(spec_schema(kind))}


def with_value(kind: str, bound: Bound, value: Any) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC) if kind == "TrainSweep" else {}
    base = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "bound"}, "spec": spec}
    root = {"type": "object", "properties": {"spec": spec_schema(kind)}, "required": ["spec"]}
    placed: dict[str, Any] = place(base, root, bound.path, value)
    return placed


def name(case: Any) -> str:
    return f"{case.path}-{case.word}" if isinstance(case, Bound) else str(case)


def test_nothing_is_left_out() -> None:
    assert {bound.word for _, bound in ALL} == set(WORDS)
    assert len(ALL) > 500


@pytest.mark.parametrize(("kind", "bound"), ALL, ids=name)
def test_a_bound_refuses_and_its_neighbour_passes(api: ApiServer, kind: str, bound: Bound) -> None:
    path = bound.error_path or bound.path
    refused = with_value(kind, bound, bound.refused)
    told = api.try_create(refused)
    # A refusal by `not` has no field of its own: the API server puts the path into the words.
    assert [text for at, text in told if WORDS[bound.word] in text and (at == path or path in text)], told
    ours = [at for at, _ in violations(refused["spec"], spec_schema(kind))]
    assert any(at == path or at.startswith(f"{path}.") for at in ours), ours
    for value in bound.accepted:
        taken = with_value(kind, bound, value)
        left = [(at, text) for at, text in api.try_create(taken) if not text.endswith(tuple(RULES))]
        assert left == []
        assert [p for p in violations(taken["spec"], spec_schema(kind)) if p[1] not in RULES] == []
