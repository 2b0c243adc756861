"""What must not run does not, says which field and what to do, and touches no store."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.operator.sweeps import BUCKET, condition, sweep, sweep_class
from tests.integration.operator.world import World
from tests.together import concurrent

HOST_PATH = {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    # name -> spec, reason, field that the message names
    "storage-of-others": ({"storage": {"uri": "s3://another-bucket/x"}}, "StorageNotAllowed", "storage.uri"),
    "storage-endpoint": ({"storage": {"endpointURL": "http://10.0.0.1:9"}}, "StorageNotAllowed", "storage.endpointURL"),
    "reserved-env": (
        {"training": {"env": [{"name": "RAY_ADDRESS", "value": "x"}]}},
        "InvalidSpec",
        "training.env[0].name",
    ),
    "host-path": ({"cluster": {"head": {"podTemplate": HOST_PATH}}}, "NotAllowed", "cluster.head.podTemplate"),
    "small-head": (
        {"cluster": {"head": {"resources": {"memory": "256Mi"}}}},
        "InvalidSpec",
        "cluster.head.resources.memory",
    ),
    "grid-size": (
        {
            "search": {
                "algorithm": {"grid": {}, "random": None},
                "parameters": [{"name": "width", "categorical": {"values": [1, 2, 3]}}],
            },
            "trials": {"count": 2, "maxConcurrent": 1},
        },
        "InvalidSpec",
        "trials.count",
    ),
    "runtime-env": ({"training": {"runtimeEnv": {"container": {"image": "x"}}}}, "InvalidSpec", "training.runtimeEnv"),
}


@pytest.mark.parametrize("name", WRONG)
@concurrent
def test_a_sweep_that_cannot_run_names_its_field_and_asks_nothing_of_the_store(world: World, name: str) -> None:
    spec, reason, field = WRONG[name]
    body = world.submit(_without_nulls(sweep(f"wrong-{name}", **spec)))
    seen = world.reaches(body, "Admitted", "False")
    found = condition(seen, "Admitted")
    assert (found["reason"], field in found["message"]) == (reason, True), found
    assert condition(seen, "Stalled")["status"] == "True"
    assert condition(seen, "Succeeded") | {"lastTransitionTime": "", "message": ""} == {
        "type": "Succeeded",
        "status": "Unknown",
        "reason": reason,
        "message": "",
        "lastTransitionTime": "",
        "observedGeneration": 1,
    }
    assert world.rayjobs(body) == []
    assert world.holds(body) == []
    assert "finalizers" not in seen["metadata"]
    assert world.store_requests(f"wrong-{name}") == []


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


@concurrent
def test_a_missing_class_is_named_and_the_sweep_starts_when_it_comes(world: World) -> None:
    body = world.submit(sweep("waits-for-class", className="comes-later"))
    found = condition(world.reaches(body, "Admitted", "False", "ClassNotFound"), "Admitted")
    assert "comes-later" in found["message"]
    assert "spec.className" in found["message"]
    world.sweep_class(sweep_class("comes-later", world.cluster.s3_endpoint))
    done = world.ended(body)
    assert condition(done, "Succeeded")["status"] == "True"
    assert done["status"]["resolved"]["className"] == "comes-later"


@concurrent
def test_a_team_cannot_name_the_prefix_of_another_team(world: World) -> None:
    narrow = {"storage": {"allowedPrefixes": [f"s3://{BUCKET}/teams/{{namespace}}"]}}
    world.sweep_class(sweep_class("teams", world.cluster.s3_endpoint, **narrow))
    mine = {"className": "teams", "storage": {"uri": f"s3://{BUCKET}/teams/team-a"}}
    other = {"className": "teams", "storage": {"uri": f"s3://{BUCKET}/teams/team-b"}}
    longer = {"className": "teams", "storage": {"uri": f"s3://{BUCKET}/teams/team-ab"}}
    good = world.submit(sweep("own-prefix", "team-a", **mine))
    bad = [world.submit(sweep(f"foreign-{i}", "team-a", **spec)) for i, spec in enumerate((other, longer))]
    for body in bad:
        found = condition(world.reaches(body, "Admitted", "False", "StorageNotAllowed"), "Admitted")
        assert "storage.uri" in found["message"]
        assert f"s3://{BUCKET}/teams/team-a" in found["message"]
    assert condition(world.ended(good), "Succeeded")["status"] == "True"
    assert not [line for line in world.store_requests("team-b") if re.search("foreign-", line)]
    assert world.store_requests("team-ab") == []
    assert world.store_requests("teams/team-a/team-a/own-prefix") != []


@concurrent
def test_a_class_that_names_no_prefix_allows_none(world: World) -> None:
    body = sweep_class("closed", world.cluster.s3_endpoint)
    body["spec"]["storage"]["allowedPrefixes"] = []
    world.sweep_class(body)
    refused = world.submit(sweep("closed-class", className="closed"))
    found = condition(world.reaches(refused, "Admitted", "False", "StorageNotAllowed"), "Admitted")
    assert "none" in found["message"]
