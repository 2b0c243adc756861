"""Argo CD's actions: offered when they do something, and what they change is what they say and no more."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from tests.unit.argocd.lifecycle import STATES
from tests.unit.argocd.tools import FOLDER, action, discover, repaired
from tests.unit.core.core_builders import Stage, kinds
from trainsweep.contract.labels import RETRY_NOW
from trainsweep.core.times import to_text

ENDED = {name for name, state in STATES.items() if "Finished" in state.waits}


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / path).read_text(encoding="utf-8"))
    return found


def enabled(obj: dict[str, Any]) -> set[str]:
    return {name for name, about in discover(obj).items() if not about["disabled"]}


@pytest.mark.parametrize("name", STATES)
def test_what_is_offered(name: str) -> None:
    obj = read(f"testdata/{name}.yaml")
    suspended = obj["spec"].get("suspend", False)
    expected = set() if name in ENDED else {"resume"} if suspended else {"suspend"}
    assert enabled(obj) == expected | ({"retry"} if name == "retrying" else set())


def test_a_suspended_sweep_can_be_resumed_and_only_that() -> None:
    obj = read("testdata/retrying.yaml")
    obj["spec"]["suspend"] = True
    assert enabled(obj) == {"resume"}


def test_every_action_has_a_script_and_a_name() -> None:
    offered = discover(read("testdata/running.yaml"))
    assert set(offered) == {path.parent.name for path in (FOLDER / "actions").glob("*/action.lua")}
    assert all(about["displayName"] and about["iconClass"].startswith("fa ") for about in offered.values())


@pytest.mark.parametrize("name", STATES)
def test_suspend_and_resume_change_one_field_and_give_it_back(name: str) -> None:
    obj = read(f"testdata/{name}.yaml")
    obj["spec"].pop("suspend", None)
    obj["spec"]["search"]["algorithm"] = {"grid": {}}  # an empty map, which Lua takes for a list
    suspended = repaired(action("suspend", copy.deepcopy(obj)), obj)
    assert suspended == obj | {"spec": obj["spec"] | {"suspend": True}}
    assert repaired(action("resume", copy.deepcopy(suspended)), suspended) == obj


@pytest.mark.parametrize("annotations", [None, {"team": "a"}], ids=["no annotation", "others"])
def test_retry_annotates_with_the_time(annotations: dict[str, str] | None) -> None:
    obj = read("testdata/retrying.yaml")
    if annotations:
        obj["metadata"]["annotations"] = annotations
    done = repaired(action("retry", copy.deepcopy(obj)), obj)
    when = done["metadata"]["annotations"].pop(RETRY_NOW)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", when)
    assert done["metadata"]["annotations"] == (annotations or {})


def _between_attempts() -> Stage:
    stage: Stage = STATES["retrying"].make()
    assert kinds(stage.decide(1)) == []
    return stage


def test_retry_ends_the_pause() -> None:
    stage = _between_attempts()
    stage.annotations = {RETRY_NOW: to_text(stage.now)}
    assert "CreateRayJob" in kinds(stage.decide(1))
    assert stage.status.attempt == 2


@pytest.mark.parametrize("when", [-3600.0, 3600.0, None], ids=["of an earlier pause", "far ahead", "no time"])
def test_another_time_ends_no_pause(when: float | None) -> None:
    stage = _between_attempts()
    stage.annotations = {RETRY_NOW: "now" if when is None else to_text(stage.now + when)}
    assert kinds(stage.decide(1)) == []


def test_a_terminal_sweep_never_runs_again_whatever_is_annotated() -> None:
    stage: Stage = STATES["retries-exhausted"].make().torn_down()
    stage.annotations = {RETRY_NOW: to_text(stage.now)}
    assert "CreateRayJob" not in kinds(stage.decide(1))


def test_action_test_yaml_is_true_in_argo_cd_s_own_layout() -> None:
    tests = read("actions/action_test.yaml")
    for case in tests["discoveryTests"]:
        obj = read(f"actions/{case['inputPath']}")
        offered = discover(obj)
        assert [one["name"] for one in case["result"]] == sorted(offered)
        for one in case["result"]:
            about = offered[one["name"]]
            assert (one.get("disabled", False), one["displayName"]) == (about["disabled"], about["displayName"])
    for case in tests["actionTests"]:
        obj = read(f"actions/{case['inputPath']}")
        assert repaired(action(case["action"], copy.deepcopy(obj)), obj) == read(
            f"actions/{case['expectedOutputPath']}"
        )
