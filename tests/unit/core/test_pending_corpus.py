"""The pending table: situations as files (objects, Events, what could not be read) -> layer, reason and message."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainsweep.api.pending import Layer
from trainsweep.api.status import TrainSweepStatus
from trainsweep.core.pending.chain import LOOKS, chain, lowest
from trainsweep.core.pending.demand import Demand
from trainsweep.core.pending.situation import Situation, State
from trainsweep.core.times import to_seconds

FOLDER = Path(__file__).parents[2] / "corpus" / "pending"
FILES = sorted(FOLDER.glob("*.yaml"))
KEYS = {"now", "status", "objects", "events", "refusal", "store", "autoscalerLog", "demand", "unread", "expect"}


def read(path: Path) -> tuple[Situation, dict[str, Any]]:
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(value) <= KEYS, set(value) - KEYS
    kinds: dict[str, list[dict[str, Any]]] = {}
    for item in value.get("objects", []):
        kinds.setdefault(item["kind"], []).append(item)
    seen = Situation(
        now=to_seconds(value["now"]) or 0.0,
        status=TrainSweepStatus.model_validate(value.get("status", {})),
        refusal=value.get("refusal", ""),
        ray_job=next(iter(kinds.pop("RayJob", [])), None),
        ray_cluster=next(iter(kinds.pop("RayCluster", [])), None),
        pods=tuple(kinds.pop("Pod", [])),
        events=tuple(value.get("events", [])),
        workloads=tuple(kinds.pop("Workload", [])),
        quotas=tuple(kinds.pop("ResourceQuota", [])),
        node_claims=tuple(kinds.pop("NodeClaim", [])),
        autoscaler_log=value.get("autoscalerLog", ""),
        store=value.get("store", ""),
        demand=_demand(value["demand"]) if "demand" in value else None,
        unread=value.get("unread", {}),
    )
    assert not kinds, f"objects that nothing reads: {set(kinds)}"
    return seen, value["expect"]


def _demand(value: dict[str, Any]) -> Demand:
    return Demand(value["trials"], value["workers"], value["workersPerPod"])


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_situation_has_its_layer_reason_and_message(path: Path) -> None:
    seen, expect = read(path)
    steps = chain(seen)
    found = lowest(steps)
    for layer, state in expect.get("also", {}).items():
        assert next(s.state for s in steps if s.layer == layer) == state
    if not expect["layer"]:
        assert found is None
        return
    assert found is not None
    assert (found.layer, found.reason, found.message) == (expect["layer"], expect["reason"], expect["message"])
    assert (found.cure, found.passing) == (expect.get("cure", ""), expect.get("passing", False))
    assert found.cure or found.passing, "what does not pass by itself needs a cure"


def test_each_layer_has_at_least_three_situations_and_there_are_forty() -> None:
    layers = Counter(read(path)[1]["layer"] for path in FILES)
    assert {layer: layers[layer] >= 3 for layer in Layer} == dict.fromkeys(Layer, True)
    assert sum(layers.values()) >= 40


def test_the_chain_has_all_layers_in_their_order() -> None:
    assert [layer for layer, _ in LOOKS] == list(Layer)
    assert {step.state for step in chain(Situation(0.0))} == {State.SATISFIED}


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": None}, {"status": 3}, {"status": {"conditions": [1, None]}}, {"spec": []}]
)
def test_odd_objects_never_raise(odd: dict[str, Any]) -> None:
    chain(Situation(1.0, ray_job=odd, ray_cluster=odd, pods=(odd,), events=(odd,), workloads=(odd,), quotas=(odd,),
                    node_claims=(odd,)))  # fmt: skip
