"""A class that is deleted while its sweep runs: what was launched is proven and released, nothing is launched any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.core_builders import DIGEST, Stage, klass, only, spec
from trainsweep.api.conditions import Condition
from trainsweep.api.status import GrantStatus, ResolvedStatus
from trainsweep.contract.documents import Outcome
from trainsweep.core import model
from trainsweep.core.grant import class_of_grant
from trainsweep.core.model import ClassView
from trainsweep.core.resolved import resolved
from trainsweep.core.size import size_of

GONE = "TrainSweepClass default, with which this sweep was launched, does not exist any more: create it again"
ROLE = "arn:aws:iam::111122223333:role/read"


def granted(stage: Stage) -> GrantStatus:
    found = stage.status.resolved.granted
    assert found is not None
    return found


def deleted(stage: Stage) -> Stage:
    """The class is gone: what observe() then hands over."""
    named = str(stage.spec.get("className", ""))
    stage.sweep_class, stage.class_error = class_of_grant(stage.status.resolved, named), GONE
    return stage


def test_the_first_launch_copies_what_proof_and_release_need() -> None:
    found = klass(
        storage={
            "allowedPrefixes": ["s3://other", "s3://bucket/team"],
            "endpoints": ["http://a"],
            "verifierRoleARN": ROLE,
        },
        limits={"totalSeconds": 5000, "gpuHours": 1.5, "gpus": 64, "trials": 40},
        defaults={
            "checkpoints": {"require": "AllSucceeded"},
            "cleanup": {"maxHoldSeconds": 700},
            "storage": {"region": "eu-north-1", "endpointURL": "http://b/", "serviceAccountName": "x"},
            "training": {"image": "registry/a", "env": [{"name": "A", "value": "b"}]},
            "cluster": {"head": {"podTemplate": {"spec": {"affinity": {}}}}},
        },
    )
    stage = Stage(sweep_class=found).launched()
    assert granted(stage) == GrantStatus(
        allowed_prefixes=["s3://bucket/team"],
        endpoint="http://b",
        verifier_role_arn=ROLE,
        total_seconds=5000,
        gpu_hours="1.5",
        defaults={
            "checkpoints": {"require": "AllSucceeded"},
            "cleanup": {"maxHoldSeconds": 700},
            "storage": {"region": "eu-north-1", "endpointURL": "http://b/"},
        },
    )


def test_what_is_copied_means_the_same_as_the_class() -> None:
    found = klass(
        limits={"totalSeconds": 5000, "gpuHours": 1.5},
        defaults={
            "checkpoints": {"require": "AllReported", "verify": {"depth": "Sizes"}},
            "failurePolicy": {"attempts": {"eviction": 3}},
            "budget": {"cpuHours": 7},
            "storage": {"region": "eu-north-1"},
        },
    )
    stage = Stage(spec=spec(storage={"uri": "s3://bucket/team"}), sweep_class=found).launched()
    again = class_of_grant(stage.status.resolved, "")
    assert again is not None
    assert (again.name, again.uid, again.generation) == (found.name, found.uid, found.generation)
    assert (again.spec.limits.total_seconds, again.spec.limits.gpu_hours) == (5000, 1.5)
    assert again.spec.limits.gpus is None  # nobody starts by a copy, so nobody waits in its line
    assert resolved(stage.spec, again.spec) == resolved(stage.spec, found.spec)


def test_the_running_attempt_is_proven_and_released_without_its_class() -> None:
    stage = deleted(Stage(sweep_class=klass(defaults={"checkpoints": {"require": "AllSucceeded"}})).running().waiting())
    before = stage.status.resolved
    plan = stage.decide(5)
    assert only(plan, model.Settle) == [model.Settle(stage.own, DIGEST)]
    stage.looked(outcome=Outcome.COMPLETED).decide(5)
    stage.ended("Complete", "SUCCEEDED", outcome=Outcome.COMPLETED)
    stage.decide(5)
    assert stage.state == "True/Completed"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    stage.torn_down()
    assert stage.condition(Condition.RELEASED).status == "True"
    assert stage.status.resolved == before


def test_the_next_attempt_is_refused_and_says_what_to_do_until_the_class_is_back() -> None:
    stage = deleted(Stage().running().head_is_lost())
    stage.settled()
    stage.torn_down()
    for _ in range(3):
        assert not only(stage.decide(100), model.CreateRayJob)
    found = stage.condition(Condition.ADMITTED)
    assert (found.status, found.reason) == ("False", "ClassNotFound")
    assert "create it again" in found.message
    assert stage.condition(Condition.STALLED).status == "True"
    stage.sweep_class, stage.class_error = klass(), ""
    assert only(stage.decide(100), model.CreateRayJob)
    assert stage.status.attempt == 2


def test_an_attempt_that_is_recorded_but_was_never_made_is_not_made_by_a_copy() -> None:
    stage = Stage()
    stage.decide()
    plan = deleted(stage).decide(5)
    assert not only(plan, model.CreateRayJob)
    assert stage.condition(Condition.ADMITTED).reason == "ClassNotFound"
    stage.sweep_class, stage.class_error = klass(), ""
    assert only(stage.decide(5), model.CreateRayJob)
    assert stage.condition(Condition.ADMITTED).status == "True"


def test_a_removed_prefix_is_not_allowed_again_by_deleting_the_class() -> None:
    stage = Stage().running()
    stage.sweep_class = klass(storage={"allowedPrefixes": ["s3://elsewhere"]})
    stage.decide(60)
    assert stage.status.resolved.granted is None
    assert deleted(stage).sweep_class is None


def test_a_class_that_changes_is_followed_while_an_attempt_lives() -> None:
    stage = Stage().running()
    stage.sweep_class = klass(storage={"verifierRoleARN": ROLE})
    stage.decide(60)
    assert granted(stage).verifier_role_arn == ROLE
    plan = stage.decide(60)
    assert plan.status is None


def test_an_attempt_that_an_older_operator_launched_gets_its_copy() -> None:
    stage = Stage().running()
    stage.status = stage.status.model_copy(
        update={"resolved": stage.status.resolved.model_copy(update={"granted": None})}
    )
    stage.decide(60)
    assert granted(stage).allowed_prefixes == ["s3://bucket"]


@pytest.mark.parametrize(
    "changes",
    [
        {"storage": {"allowedPrefixes": []}},
        {"storage": {"allowedPrefixes": ["s3://bucket/tea"]}},
        {"storage": {"allowedPrefixes": ["s3://bucket/other-{namespace}"]}},
    ],
)
def test_a_class_that_does_not_allow_the_run_gives_nothing(changes: dict[str, Any]) -> None:
    stage = Stage().running()
    stage.sweep_class = klass(**changes)
    stage.decide(60)
    assert stage.status.resolved.granted is None


def test_the_exports_prefix_is_copied_and_no_other() -> None:
    wanted = spec(checkpoints={"export": {"uri": "s3://models/digits"}})
    found = klass(storage={"allowedPrefixes": ["s3://bucket", "s3://models", "s3://secrets"]})
    assert granted(Stage(spec=wanted, sweep_class=found).launched()).allowed_prefixes == ["s3://bucket", "s3://models"]


def test_a_prefix_below_which_run_and_export_lie_is_copied_once() -> None:
    wanted = spec(checkpoints={"export": {"uri": "s3://bucket/models"}})
    assert granted(Stage(spec=wanted).launched()).allowed_prefixes == ["s3://bucket"]


def test_an_export_that_the_class_does_not_allow_any_more_takes_nothing_from_the_run() -> None:
    wanted = spec(checkpoints={"export": {"uri": "s3://models/digits"}})
    both = klass(storage={"allowedPrefixes": ["s3://bucket", "s3://models"]})
    stage = Stage(spec=wanted, sweep_class=both).launched()
    stage.sweep_class = klass()
    stage.decide(60)
    assert granted(stage).allowed_prefixes == ["s3://bucket"]


@pytest.mark.parametrize(
    "given",
    [
        ResolvedStatus(),
        ResolvedStatus(class_name="default"),
        ResolvedStatus(granted=GrantStatus(allowed_prefixes=["s3://bucket"])),
        ResolvedStatus(class_name="default", granted=GrantStatus(verifier_role_arn="no arn")),
        ResolvedStatus(class_name="default", granted=GrantStatus(gpu_hours="many")),
    ],
)
def test_what_is_no_copy_serves_nobody(given: ResolvedStatus) -> None:
    assert class_of_grant(given, "") is None


def test_the_copy_of_another_class_than_the_sweep_names_is_none() -> None:
    given = ResolvedStatus(class_name="made-up", granted=GrantStatus(allowed_prefixes=["s3://bucket"]))
    assert class_of_grant(given, "default") is None
    assert class_of_grant(given, "made-up") is not None


def test_the_copy_of_the_largest_class_is_small() -> None:
    uri = "s3://bucket/" + "x" * 500
    found = klass(
        storage={
            "allowedPrefixes": ["s3://bucket"],
            "verifierRoleARN": ROLE + "x" * 500,
            "endpoints": ["http://" + "e" * 200],
        },
        defaults={
            "checkpoints": {"export": {"uri": uri[:512]}, "verify": {"depth": "Sizes", "timeoutSeconds": 60}},
            "cleanup": dict.fromkeys(
                ("holdSeconds", "maxHoldSeconds", "deletionGraceSeconds", "stopGraceSeconds"), 1000
            ),
            "deadlines": dict.fromkeys(("startupSeconds", "runSeconds", "totalSeconds", "stallSeconds"), 31536000),
            "failurePolicy": {"attempts": dict.fromkeys(("application", "infrastructure", "eviction", "startup"), 100)},
            "storage": {"endpointURL": "http://" + "e" * 200, "region": "r" * 32},
            "training": {"env": [{"name": "A", "value": "v" * 8000}]},
        },
    )
    with_copy = Stage(sweep_class=found).launched().status
    without = with_copy.model_copy(update={"resolved": with_copy.resolved.model_copy(update={"granted": None})})
    assert size_of(with_copy) - size_of(without) < 3 * 1024


@pytest.mark.parametrize("change", ["class gone", "class unreadable", "another class", "never launched"])
def test_a_copy_follows_only_the_class_that_it_was_made_of(change: str) -> None:
    stage = Stage() if change == "never launched" else Stage().launched()
    if change == "never launched":
        stage.spec = spec(suspend=True)
        stage.decide()
        assert stage.status.resolved.granted is None
        return
    before = granted(stage)
    other = klass(storage={"allowedPrefixes": ["s3://bucket/team", "s3://else"]})
    match change:
        case "class gone":
            stage.sweep_class = None
        case "class unreadable":
            stage.sweep_class, stage.class_error = other, GONE
        case _:
            stage.sweep_class = ClassView("another", "uid", 1, other.spec)
    stage.decide(60)
    assert granted(stage) == before
