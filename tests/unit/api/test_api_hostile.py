"""Whatever is stored as a spec, reading it ends in a spec or in problems that name fields, and raises nothing else."""

from __future__ import annotations

import contextlib
import copy
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.api_samples import SPEC, changed
from trainsweep.api.checks import check_spec
from trainsweep.api.resolve import SpecError, resolve
from trainsweep.api.validate import MAX_DEPTH, MAX_PATH

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=12,
)


def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(p for key, child in below for p in paths(child, (*path, key)))]


FULL = changed(
    {
        "search.initialPoints": [{"lr": 0.01, "width": 64}],
        "training.config": {"a": [1]},
        "training.env": [{"name": "A", "value": "b"}],
        "training.runtimeEnv": {"env_vars": {"A": "b"}},
        "training.workers.resources": {"cpu": 1},
        "cluster.workerGroups": [{"name": "g", "resources": {"cpu": 1}}],
        "trials.earlyStopping": {"asha": {"maxEpochs": 3}},
        "cleanup.holdSeconds": 900,
        "storage.uri": "s3://bucket/p",
    }
)


def read(spec: Any) -> None:
    with contextlib.suppress(SpecError):
        check_spec(resolve(spec, None))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from([*SPEC, "cluster", "storage", "foo"]), JSON))
def test_any_json_is_read_or_refused(spec: dict[str, Any]) -> None:
    read(spec)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(paths(FULL)[1:]), JSON)
def test_any_json_anywhere_in_a_good_spec_is_read_or_refused(path: tuple[Any, ...], value: Any) -> None:
    spec = copy.deepcopy(FULL)
    node = spec
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    read(spec)


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30, -(2**63) - 1])
def test_integers_beyond_64_bits_do_not_reach_the_rules(number: int) -> None:
    resolve(changed({"training.config": {"a": number}}), None)
    with pytest.raises(SpecError, match=r"spec\.trials\.count: must be at (most|least)"):
        resolve(changed({"trials.count": number}), None)


@pytest.mark.parametrize("kind", ["lists", "maps"])
def test_deep_nesting_is_a_problem_of_one_field(kind: str) -> None:
    """The API server takes ten thousand levels; Python's own limit must not be what stops a pass."""
    value: Any = 1
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value] if kind == "lists" else {"a": value}
    with pytest.raises(SpecError) as caught:
        resolve(changed({"training.config": {"deep": value}}), None)
    ((path, message),) = caught.value.problems
    assert path.startswith("spec.training.config.deep")
    assert len(path) <= MAX_PATH
    assert message == f"is nested deeper than {MAX_DEPTH} levels"
