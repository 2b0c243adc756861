"""Checks over several fields that neither schema nor CEL can make."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.api_samples import changed
from trainsweep.api.checks import MAX_CONFIG_BYTES, check_spec
from trainsweep.api.resolve import resolve


def check(changes: dict[str, Any]) -> list[tuple[str, str]]:
    return check_spec(resolve(changed(changes), None))


GRID = {
    "search.algorithm": {"grid": {}},
    "search.parameters": [
        {"name": "lr", "float": {"min": 0.1, "max": 0.7, "step": 0.2}},
        {"name": "width", "categorical": {"values": [64, 128, 256]}},
        {"name": "depth", "int": {"min": 2, "max": 9, "step": 5}},
    ],
}


def test_the_sample_is_fine() -> None:
    assert check({}) == []


@pytest.mark.parametrize(("count", "fine"), [(24, True), (23, False), (25, False)])
def test_a_grid_s_count_is_its_size_counted_in_decimals(count: int, fine: bool) -> None:
    found = check({**GRID, "trials.count": count})
    assert [path for path, _ in found] == ([] if fine else ["spec.trials.count"])
    assert fine or "which is 24" in found[0][1]


def test_a_grid_needs_no_count() -> None:
    assert check({**GRID, "trials": {"maxConcurrent": 24}}) == []
    assert [p for p, _ in check({**GRID, "trials": {"maxConcurrent": 25}})] == ["spec.trials.maxConcurrent"]


def test_a_grid_is_bounded() -> None:
    parameters = [{"name": f"p{i}", "int": {"min": 0, "max": 99}} for i in range(3)]
    found = check({"search": {"algorithm": {"grid": {}}, "parameters": parameters}, "trials": {}})
    assert found == [
        ("spec.search.parameters", "the grid has 1000000 points, at most 10000 are possible: larger steps")
    ]


def test_a_grid_takes_no_initial_points() -> None:
    point = {"lr": 0.1, "width": 64, "depth": 2}
    found = check({**GRID, "search.initialPoints": [point], "trials": {}})
    assert found == [("spec.search.initialPoints", "a grid tries every point already: remove initialPoints")]


def test_C3_equal_values_are_refused_whatever_their_spelling() -> None:
    path = "search.parameters[1].categorical.values"
    assert check({path: [1, 1.0, True, "1"]}) == [
        (f"spec.{path}[1]", "1.0 is the same value as 1 at [0]: remove one"),
    ]
    assert [p for p, _ in check({path: ["a", "b", "a", "b"]})] == [f"spec.{path}[2]", f"spec.{path}[3]"]


class TestInitialPoints:
    @pytest.mark.parametrize(
        ("point", "path", "words"),
        [
            ({"lr": 1.0, "width": 64}, "[0].lr", "outside"),
            ({"lr": "0.01", "width": 64}, "[0].lr", "remove the quotes"),
            ({"lr": True, "width": 64}, "[0].lr", "no number"),
            ({"lr": 0.01, "width": 65}, "[0].width", "none of the values"),
            ({"lr": 0.01, "width": True}, "[0].width", "none of the values"),
            ({"lr": 0.01}, "[0]", "no value for width"),
            ({"lr": 0.01, "width": 64, "x": 1}, "[0].x", "no parameter"),
        ],
    )
    def test_a_point_outside_the_space_is_named(self, point: dict[str, Any], path: str, words: str) -> None:
        (problem,) = check({"search.initialPoints": [point]})
        assert problem[0] == f"spec.search.initialPoints{path}"
        assert words in problem[1]

    def test_C6_steps_are_counted_in_decimals(self) -> None:
        parameters = [{"name": "a", "float": {"min": 0.1, "max": 0.7, "step": 0.2}}]
        assert check({"search.parameters": parameters, "search.initialPoints": [{"a": 0.7}]}) == []
        (problem,) = check({"search.parameters": parameters, "search.initialPoints": [{"a": 0.6}]})
        assert "multiple of the step" in problem[1]

    def test_an_int_takes_a_whole_float(self) -> None:
        parameters = [{"name": "a", "int": {"min": 1, "max": 9}}]
        assert check({"search.parameters": parameters, "search.initialPoints": [{"a": 3.0}]}) == []
        assert len(check({"search.parameters": parameters, "search.initialPoints": [{"a": 3.5}]})) == 1

    def test_a_point_twice_or_more_points_than_trials(self) -> None:
        points = [{"lr": 0.01, "width": 64}, {"lr": 0.01, "width": 64}]
        assert [p for p, _ in check({"search.initialPoints": points})] == ["spec.search.initialPoints[1]"]
        points[1] = {"lr": 0.02, "width": 64}
        assert [p for p, _ in check({"search.initialPoints": points, "trials.count": 1})] == [
            "spec.search.initialPoints"
        ]


class TestConfig:
    def test_its_size_is_bounded(self) -> None:
        room = MAX_CONFIG_BYTES - len('{"a":""}')
        assert check({"training.config": {"a": "x" * room}}) == []
        assert [p for p, _ in check({"training.config": {"a": "x" * (room + 1)}})] == ["spec.training.config"]

    def test_a_parameter_is_no_constant(self) -> None:
        assert [p for p, _ in check({"training.config": {"lr": 1}})] == ["spec.training.config.lr"]

    @pytest.mark.parametrize(("number", "fine"), [(2**53, True), (2**53 + 1, False), (10**20, True), (1e300, True)])
    def test_E4_integers_that_lose_digits_are_refused(self, number: float, fine: bool) -> None:
        found = check({"training.config": {"a": [{"b": number}]}})
        assert [p for p, _ in found] == ([] if fine else ["spec.training.config.a[0].b"])


class TestEnvironment:
    @pytest.mark.parametrize(
        "name",
        ["RAY_ADDRESS", "TRAINSWEEP_X", "TUNE_X", "KUBERAY_GEN", "AWS_EC2_METADATA_DISABLED", "AWS_REGION", "ray_x"],
    )
    def test_reserved_names_are_refused_everywhere(self, name: str) -> None:
        (problem,) = check({"training.env": [{"name": name, "value": "1"}]})
        assert problem[0] == "spec.training.env[0].name"
        (problem,) = check({"training.runtimeEnv": {"env_vars": {name: "1"}}})
        assert problem[0] == f"spec.training.runtimeEnv.env_vars.{name}"

    def test_a_python_path_is_joined_in_env_only(self) -> None:
        assert check({"training.env": [{"name": "PYTHONPATH", "value": "/x"}]}) == []
        (problem,) = check({"training.runtimeEnv": {"env_vars": {"PYTHONPATH": "/x"}}})
        assert "training.env" in problem[1]

    def test_a_prefix_must_not_make_reserved_names(self) -> None:
        entry = {"secretRef": {"name": "s"}}
        assert check({"training.envFrom": [{**entry, "prefix": "MY_"}]}) == []
        assert [p for p, _ in check({"training.envFrom": [{**entry, "prefix": "RAY_"}]})] == [
            "spec.training.envFrom[0].prefix"
        ]

    def test_exactly_one_source_of_a_value(self) -> None:
        source = {"secretKeyRef": {"name": "a", "key": "b"}}
        assert check({"training.env": [{"name": "A", "valueFrom": source}]}) == []
        assert [p for p, _ in check({"training.env": [{"name": "A"}]})] == ["spec.training.env[0]"]
        assert [p for p, _ in check({"training.env": [{"name": "A", "value": "", "valueFrom": source}]})] == [
            "spec.training.env[0]"
        ]
        (problem,) = check({"training.env": [{"name": "A", "valueFrom": {"fileKeyRef": {}}}]})
        assert problem[0] == "spec.training.env[0].valueFrom.fileKeyRef"

    @pytest.mark.parametrize(
        "key", ["container", "image_uri", "py_executable", "conda", "worker_process_setup_hook", "excludes"]
    )
    def test_keys_of_the_runtime_env_are_an_allow_list(self, key: str) -> None:
        assert [p for p, _ in check({"training.runtimeEnv": {key: "x"}})] == [f"spec.training.runtimeEnv.{key}"]

    def test_runtime_env_variables_are_strings(self) -> None:
        assert check({"training.runtimeEnv": {"env_vars": {"A": "1"}, "pip": ["x"]}}) == []
        assert len(check({"training.runtimeEnv": {"env_vars": {"A": 1}}})) == 1
        assert len(check({"training.runtimeEnv": {"env_vars": {"A=B": "1"}}})) == 1
        assert len(check({"training.runtimeEnv": {"env_vars": ["A"]}})) == 1
        assert len(check({"training.runtimeEnv": {"pip": ["x"], "uv": ["y"]}})) == 1


@pytest.mark.parametrize("uri", ["s3://bucket/../other", "s3://bucket/a/./b", "s3://bu..cket/a"])
def test_F1_a_storage_uri_must_not_climb(uri: str) -> None:
    assert [p for p, _ in check({"storage.uri": uri})] == ["spec.storage.uri"]


def test_C6_a_step_that_does_nothing_is_refused() -> None:
    parameters = [{"name": "a", "float": {"min": 1e20, "max": 2e20, "step": 1.0}}]
    assert [p for p, _ in check({"search.parameters": parameters})] == ["spec.search.parameters[0].float.step"]
