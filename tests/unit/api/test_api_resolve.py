"""What is read is what the API server would store, and each refusal names the field and the cure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_samples import changed, spec
from trainsweep.api.resolve import SpecError, resolve
from trainsweep.api.sweepclass import TrainSweepClassSpec

LR = "search.parameters[0].float"
VALUES = "search.parameters[1].categorical.values"


def problems(changes: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        resolve(changed(changes), None)
    return caught.value.problems


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("objective.goal", "0.99", "remove the quotes"),
        (f"{LR}.min", "1e-5", "remove the quotes"),
        ("trials.count", "4", "remove the quotes"),
        (f"{LR}.log", "true", "remove the quotes"),
        ("trials.count", True, "whole number, got true"),
        ("trials.count", 4.5, "whole number, got 4.5"),
        ("objective.goal", True, "a number, got true"),
        ("objective.goal", float("nan"), "finite"),
        ("objective.goal", float("inf"), "finite"),
        ("training.config", {"a": [{"b": float("-inf")}]}, "finite"),
        ("objective.mode", "maximize", "one of Minimize, Maximize"),
        ("objective.metric", 5, "must be a string, got 5: quote it"),
        ("objective.metric", "val_loss ", "pattern"),
        ("search.parameters[0].name", False, "must be a string, got false: quote it"),
        ("search.parameters[0].name", "--lr", "pattern"),
        ("trials.count", 0, "at least 1"),
        ("trials.count", 10_001, "at most 10000"),
        (f"{LR}.step", 0, "above 0"),
        (VALUES, [1], "at least 2"),
        (VALUES, list(range(65)), "at most 64"),
        ("training", [], "must be a map, got a list"),
        ("search.parameters", {}, "must be a list, got a map"),
        ("storage.uri", "s3a://b/p", "pattern"),
        ("storage.uri", "s3://b//p", "pattern"),
        ("training.entrypoint", "train.py", "pattern"),
        ("foo", 1, 'unknown field "spec.foo"'),
        ("trials.maxConcurent", 1, 'unknown field "spec.trials.maxConcurent": did you mean "maxConcurrent"?'),
        ("search.algorithm.grid.seed", 1, "nothing may stand here"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_cure(path: str, value: Any, words: str) -> None:
    found = problems({path: value})
    assert any(words in message for _, message in found), found
    assert any(f"spec.{path}".startswith(at) or at.startswith(f"spec.{path}") for at, _ in found), found


@pytest.mark.parametrize("count", [4, 4.0])
def test_E4_a_whole_float_is_an_integer(count: float) -> None:
    resolved = resolve(spec(trials__count=count), None)
    assert resolved.trials.count == 4
    assert type(resolved.trials.count) is int


def test_C3_values_keep_their_types() -> None:
    values = resolve(changed({VALUES: [1, True, "1", 0.5]}), None).search.parameters[1].categorical
    assert values is not None
    assert [type(v) for v in values.values] == [int, bool, str, float]


@pytest.mark.parametrize("bad", [[0], {"a": 1}, None, {}, []])
def test_C5_structured_choices_are_refused_with_their_index(bad: Any) -> None:
    assert [path for path, _ in problems({VALUES: ["a", bad]})] == [f"spec.{VALUES}[1]"]


def test_E1_a_doubled_name_is_refused() -> None:
    both = [{"name": "a", "int": {"min": 1, "max": 2}}, {"name": "a", "int": {"min": 1, "max": 3}}]
    (problem,) = problems({"search.parameters": both})
    assert problem[0] == "spec.search.parameters[1].name"
    assert "is there twice" in problem[1]


def test_null_is_absent_and_never_hides_a_default_of_the_class() -> None:
    sweep_class = TrainSweepClassSpec(defaults={"training": {"image": "registry/a"}, "cleanup": {"holdSeconds": 700}})
    resolved = resolve(changed({"training.image": None, "cleanup": None, "objective.goal": None}), sweep_class)
    assert resolved.training.image == "registry/a"
    assert resolved.cleanup.hold_seconds == 700
    assert resolved.objective.goal is None


def test_null_inside_a_free_form_object_stays() -> None:
    assert resolve(changed({"training.config": {"a": None}}), None).training.config == {"a": None}


def test_all_problems_are_told_at_once() -> None:
    found = problems({"objective.mode": "min", "trials.count": "3", "foo": 1})
    assert [path for path, _ in found] == ["spec.objective.mode", "spec.trials.count", "spec.foo"]


def test_required_fields_are_named() -> None:
    with pytest.raises(SpecError) as caught:
        resolve({"objective": {"metric": "a", "mode": "Minimize"}}, None)
    assert caught.value.problems == [("spec.search", "is required"), ("spec.training", "is required")]


class TestClassDefaults:
    def test_a_sweep_goes_above_its_class_field_by_field(self) -> None:
        sweep_class = TrainSweepClassSpec(
            defaults={"cluster": {"head": {"resources": {"cpu": 1, "memory": "1Gi"}, "nodeSelector": {"a": "b"}}}}
        )
        head = resolve(changed({"cluster.head.resources": {"cpu": 4}}), sweep_class).cluster.head
        assert head.resources == {"cpu": 4}
        assert head.node_selector == {"a": "b"}

    def test_a_class_never_sets_what_makes_a_sweep(self) -> None:
        sweep_class = TrainSweepClassSpec(defaults={"trials": {"maxConcurrent": 3}, "runKey": "x"})
        resolved = resolve(spec(), sweep_class)
        assert (resolved.trials.max_concurrent, resolved.run_key) == (1, "")

    def test_a_bad_default_is_told_as_the_class_s_own(self) -> None:
        sweep_class = TrainSweepClassSpec(defaults={"cleanup": {"holdSeconds": 1}})
        with pytest.raises(SpecError, match=r"spec\.cleanup\.holdSeconds: .*from the class's defaults"):
            resolve(spec(), sweep_class)

    def test_the_hold_is_never_shorter_than_the_second_look(self) -> None:
        resolved = resolve(changed({"checkpoints.verify.timeoutSeconds": 5000}), None)
        assert resolved.cleanup.hold_seconds == 5000
        assert resolved.cleanup.max_hold_seconds == 5000


def test_what_resolve_reads_it_reads_again() -> None:
    resolved = resolve(changed({"training.workers.resources": {"cpu": 8, "nvidia.com/gpu": "1"}}), None)
    again = resolve(resolved.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True), None)
    assert again == resolved
