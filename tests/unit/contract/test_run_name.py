"""Golden vectors of run names: a sweep that is created again must find its run, with every later version too."""

from __future__ import annotations

from typing import Any

import pytest

from trainsweep.contract.canonical import config_hash, run_name

BASE: dict[str, Any] = {
    "objective": {"metric": "val_loss", "mode": "Minimize"},
    "search": {
        "algorithm": {"random": {"seed": 7}},
        "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1, "log": True}}],
    },
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {"entrypoint": "train:loop", "image": "registry.example/train:1", "config": {"epochs": 3}},
}
GOLDEN = {
    "base": (BASE, "v1-2e8d14a2ef35ad84"),
    "goal": ({**BASE, "objective": {**BASE["objective"], "goal": 0.05}}, "v1-2f70956932352f01"),
    "key": ({**BASE, "runKey": "b"}, "v1-4a7041d25ccb4984"),
    "stop": ({**BASE, "trials": {"count": 4, "stop": {"maxEpochs": 9}}}, "v1-117f19baa4b99686"),
    "empty": ({}, "v1-44136fa355b3678a"),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_run_has_the_name_that_it_always_had(name: str) -> None:
    spec, wanted = GOLDEN[name]
    assert run_name(spec) == wanted


@pytest.mark.parametrize(
    "change",
    [
        {"suspend": True},
        {"deadlines": {"totalSeconds": 5}},
        {"budget": {"gpuHours": 1}},
        {"runKey": ""},
        {"trials": {"count": 4.0, "maxConcurrent": 3}},
        {"training": {**BASE["training"], "image": "registry.example/train:2", "config": {"epochs": 3.0}}},
        {"cluster": {"rayVersion": "2.58.1"}},
    ],
    ids=str,
)
def test_what_may_change_between_attempts_names_no_other_run(change: dict[str, Any]) -> None:
    assert run_name({**BASE, **change}) == run_name(BASE)


def test_every_golden_name_is_another() -> None:
    assert len({wanted for _, wanted in GOLDEN.values()}) == len(GOLDEN)


def test_a_configuration_has_the_hash_that_it_always_had() -> None:
    assert config_hash({"lr": 0.01, "width": 64}, {"epochs": 3}) == "08962f7896"
    assert config_hash({"width": 64.0, "lr": 1e-2}, {"epochs": 3}) == "08962f7896"
    assert config_hash({"lr": "0.01", "width": 64}, {"epochs": 3}) != "08962f7896"
