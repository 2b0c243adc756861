"""Every state of a sweep's life: Argo CD's health, kstatus and `kubectl wait` say what the table says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.unit.argocd.lifecycle import STATES, body
from tests.unit.argocd.tools import FOLDER, argo_health, kstatus, waits
from trainsweep.api.conditions import Reason

FILES = {path.stem: path for path in sorted((FOLDER / "testdata").glob("*.yaml"))}
UNREACHED = {
    Reason.PENDING,  # nothing is written before the first decision, and that one launches or refuses
    Reason.UNKNOWN,
    Reason.DELETING,  # said between the settlement and the end of a deletion: Argo CD does not ask its script then
    Reason.FAILED,
    Reason.INVALID_SPEC,
    Reason.ADOPTED_FINISHED_RUN,
}


def committed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILES[name].read_text(encoding="utf-8"))
    return found


def judge(obj: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    return argo_health(obj)["status"], kstatus(obj), waits(obj)


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("source", ["decided now", "committed"])
def test_state(name: str, source: str) -> None:
    state = STATES[name]
    obj = committed(name) if source == "committed" else body(state.make())
    assert judge(obj) == (state.health, state.kstatus, state.waits)
    assert state.message in argo_health(obj)["message"]


def test_the_committed_objects_are_those_of_the_table() -> None:
    assert set(FILES) == set(STATES), "run `python -m tests.unit.argocd.lifecycle`"


def test_every_state_that_a_sweep_can_show_is_in_the_table() -> None:
    reasons = list(Reason)
    shown = set(reasons[: reasons.index(Reason.ADMITTED)]) - UNREACHED
    made = {c.reason for state in STATES.values() for c in state.make().status.conditions if c.type == "Succeeded"}
    assert shown - made == set()


@pytest.mark.parametrize("name", STATES)
def test_conditions_are_clean(name: str) -> None:
    """Never Reconciling and Stalled together; Ready is Succeeded; nobody sees a fresh object as Current."""
    conditions = {c["type"]: c for c in body(STATES[name].make())["status"].get("conditions", [])}
    assert not {"Reconciling", "Stalled"} <= conditions.keys()
    assert conditions.get("Ready", {}).get("status") == conditions.get("Succeeded", {}).get("status")
    for condition in conditions.values():
        assert condition["reason"]
        assert len(condition.get("message", "")) <= 2048


@pytest.mark.parametrize("name", STATES)
def test_a_newer_spec_is_in_progress_whatever_was_before(name: str) -> None:
    obj = committed(name)
    obj["metadata"].pop("deletionTimestamp", None)
    obj["metadata"]["generation"] += 1
    assert judge(obj) == ("Progressing", "InProgress", ())


@pytest.mark.parametrize(
    "obj", [{"metadata": {"generation": 1}}, {"metadata": {"generation": 1}, "status": {}}], ids=str
)
def test_an_object_without_a_status_is_in_progress_for_argo_cd(obj: dict[str, Any]) -> None:
    assert argo_health({"spec": {}, **obj})["status"] == "Progressing"


def test_health_test_yaml_is_true_in_argo_cd_s_own_layout() -> None:
    cases = yaml.safe_load((FOLDER / "health_test.yaml").read_text(encoding="utf-8"))["tests"]
    assert {case["inputPath"] for case in cases} == {f"testdata/{name}.yaml" for name in STATES if name != "deleting"}
    for case in cases:
        obj = yaml.safe_load((FOLDER / case["inputPath"]).read_text(encoding="utf-8"))
        assert argo_health(obj) == case["healthStatus"], case["inputPath"]
