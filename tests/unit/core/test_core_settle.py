"""An attempt that has ended: settled once, waited for within the hold, booked to its class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import DIGEST, Stage, events, kinds, last_word, only, spec
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.core import model
from trainsweep.core.model import Proof, RayJobView, Unreadable


def completed(**checkpoints: Any) -> Stage:
    """Verified, and its job has succeeded."""
    stage = Stage(spec=spec(checkpoints=checkpoints)).running().waiting()
    stage.looked().decide(5)
    return stage.job_is("Complete", "SUCCEEDED")


def test_verified_success_finishes_in_one_pass() -> None:
    stage = completed()
    plan = stage.decide(5)
    assert kinds(plan) == ["WriteStatus", "PatchRayJob", "DeleteHold"]
    assert events(plan) == ["Completed"]
    assert stage.state == "True/Completed"
    assert stage.condition(Condition.FINISHED).status == "True"
    assert stage.condition(Condition.READY).status == "True"
    assert not stage.has(Condition.RECONCILING)
    assert not stage.has(Condition.STALLED)
    assert "0.5 by t0" in stage.condition(Condition.SUCCEEDED).message
    assert stage.attempt.end_class == "Success"


def test_restarted_operator_trusts_the_recorded_proof_although_the_store_is_away() -> None:
    stage = completed()
    stage.settlement, stage.progress, stage.end = None, Unreadable("503"), Unreadable("503")
    stage.decide(5)
    assert stage.state == "True/Completed"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


def test_a_proof_by_inventory_is_not_unsaid_while_the_last_word_is_waited_for() -> None:
    """There is no receipt that could be named: the driver ended without one."""
    stage = Stage().running().job_is("Failed", "FAILED")
    stage.decide(5)
    stage.end = Unreadable("503")
    stage.looked(digest="").decide(5)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    assert stage.attempt.settled_at is None
    stage.settlement = None  # the operator restarts
    stage.decide(5)
    stage.looked(Proof.UNKNOWN, digest="").decide(5)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


def test_a_proof_by_inventory_is_of_its_attempt_only() -> None:
    stage = Stage().running().head_is_lost()
    stage.settled()
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    assert stage.status.checkpoints.source == "Inventory"
    stage.torn_down()
    stage.decide(100)
    assert stage.status.attempt == 2
    stage.settlement = None
    stage.running().job_is("Failed", "FAILED")
    assert only(stage.decide(5), model.Settle)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "Unknown"


def test_success_without_a_look_waits_for_one() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    plan = stage.decide(5)
    assert only(plan, model.Settle) == [model.Settle(stage.own, "", inventory=True)]
    assert stage.state == "Unknown/Settling"
    assert not only(plan, model.PatchRayJob)
    stage.settling = True
    assert not only(stage.decide(5), model.Settle)
    stage.settling = False
    stage.looked().decide(5)
    assert stage.state == "True/Completed"


def test_look_from_before_the_end_does_not_settle_unless_it_proves() -> None:
    stage = Stage().running().waiting()
    stage.looked(Proof.MISSING).decide(5)
    stage.job_is("Failed", "FAILED")
    plan = stage.decide(5)
    assert only(plan, model.Settle)
    assert stage.attempt.settled_at is None


@pytest.mark.parametrize(("digest", "holds"), [(DIGEST, True), ("", False)], ids=["receipt", "inventory"])
def test_a_proof_from_before_the_end_holds_if_it_is_of_a_receipt(digest: str, holds: bool) -> None:
    stage = Stage().running().looked(digest=digest)
    stage.now += 5
    plan = stage.job_is("Complete", "SUCCEEDED").decide()
    assert (stage.attempt.settled_at is not None) is holds
    assert bool(only(plan, model.Settle)) is not holds


@pytest.mark.parametrize(
    ("proof", "on_missing", "state"),
    [
        (Proof.MISSING, "Fail", "False/CheckpointsMissing"),
        (Proof.MISSING, "Warn", "True/CompletedUnverified"),
        (Proof.INVALID, "Fail", "False/CheckpointsMissing"),
    ],
)
def test_completed_but_not_proven(proof: Proof, on_missing: str, state: str) -> None:
    stage = Stage(spec=spec(checkpoints={"verify": {"timeoutSeconds": 100, "onMissing": on_missing}})).running()
    stage.job_is("Complete", "SUCCEEDED").settled(proof, DIGEST)
    stage.decide(70)  # a receipt that contradicts the store is looked at again for a minute
    assert stage.state == state
    assert (
        "it is" in stage.condition(Condition.SUCCEEDED).message
        or "model.pt" in stage.condition(Condition.SUCCEEDED).message
    )


def test_driver_that_could_not_mend_ends_it_with_the_files_name() -> None:
    stage = Stage().running().ended(outcome=Outcome.COMPLETED, reason=FailureReason.CHECKPOINTS_LOST)
    stage.settled(Proof.MISSING, DIGEST)
    assert stage.state == "False/CheckpointsMissing"
    assert "model.pt" in stage.condition(Condition.SUCCEEDED).message
    assert stage.status.retries.application.used == 0


def test_a_driver_that_lost_what_is_there_after_all_is_quoted_alone() -> None:
    stage = Stage().running()
    stage.ended(outcome=Outcome.COMPLETED, reason=FailureReason.CHECKPOINTS_LOST, message="model.pt of t0 is lost")
    stage.settled(Proof.PERSISTED, DIGEST)
    assert (stage.state, stage.condition(Condition.SUCCEEDED).message) == (
        "False/CheckpointsMissing",
        "model.pt of t0 is lost",
    )


def test_warn_holds_also_where_the_driver_could_not_mend() -> None:
    stage = Stage(spec=spec(checkpoints={"verify": {"timeoutSeconds": 100, "onMissing": "Warn"}})).running()
    stage.ended(outcome=Outcome.COMPLETED, reason=FailureReason.CHECKPOINTS_LOST).settled(Proof.MISSING, DIGEST)
    assert stage.state == "True/CompletedUnverified"


def test_nothing_committed_is_no_success() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.settled(Proof.PERSISTED, DIGEST, required=0, verified=0)
    assert stage.state == "False/CheckpointsMissing"
    assert "require" in stage.condition(Condition.SUCCEEDED).message


# ---------------------------------------------------------------------------------------- the store cannot be read


def test_unreadable_store_is_waited_for_and_the_lease_moved_ahead() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.settled(Proof.UNKNOWN, DIGEST)
    assert stage.state == "Unknown/Verifying"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "Unknown"
    assert not only(stage.decide(100), model.PatchRayJob)
    lease = only(stage.decide(60), model.PatchRayJob)
    assert [p.spec for p in lease] == [{"ttlSecondsAfterFinished": 600}]
    assert stage.attempt.settled_at is None


def test_unreadable_until_the_longest_hold_says_that_nobody_could_look() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.settled(Proof.UNKNOWN, "")
    stage.decide(620)
    assert stage.state == "False/VerificationTimedOut"
    assert stage.status.retries.application.used == 0


def test_operator_that_was_away_for_the_whole_hold_looks_once() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.decide()
    assert only(stage.decide(1000), model.Settle)
    assert stage.attempt.settled_at is None
    stage.looked().decide(5)
    assert stage.state == "True/Completed"


def test_look_that_never_ends_is_given_up_long_after_the_hold() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.decide()
    stage.settling = True
    stage.decide(4000)
    assert stage.attempt.settled_at is None
    stage.decide(300)
    assert stage.state == "False/VerificationTimedOut"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).reason == "StoreUnreadable"


def test_lost_head_with_an_unreadable_store_consumes_nothing_before_the_hold_is_over() -> None:
    stage = Stage().running().head_is_lost()
    stage.settled(Proof.UNKNOWN)
    stage.decide(300)
    assert stage.status.retries.infrastructure.used == 0
    stage.decide(310)
    assert stage.status.retries.infrastructure.used == 1
    assert stage.state == "Unknown/Retrying"


def test_store_that_comes_back_settles() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.settled(Proof.UNKNOWN, DIGEST)
    assert only(stage.decide(11), model.Settle)
    stage.looked().decide(5)
    assert stage.state == "True/Completed"


def test_last_word_that_cannot_be_read_yet_is_waited_for() -> None:
    stage = Stage().running().job_is("Failed", "FAILED")
    stage.end = Unreadable("503")
    stage.settled()
    assert stage.attempt.settled_at is None
    stage.end = last_word(stage.own, reason=FailureReason.BAD_ENTRYPOINT)
    stage.decide(5)
    assert stage.state == "False/PermanentFailure"


def test_last_word_is_asked_for_before_a_lost_head_is_booked() -> None:
    stage = Stage().running().waiting()
    stage.looked().decide(5)
    stage.head_is_lost()
    stage.decide(5)
    assert stage.attempt.settled_at is None
    stage.decide(1)
    assert stage.state == "True/Completed"  # complete and proven, only the job's last word is missing


# ---------------------------------------------------------------------------------------- booking


@pytest.mark.parametrize(
    ("end", "end_class", "field"),
    [
        ({}, "Application", "application"),
        ({"reason": FailureReason.STORAGE_UNAVAILABLE}, "Infrastructure", "infrastructure"),
        ({"outcome": Outcome.STOPPED}, "Eviction", "eviction"),
    ],
)
def test_end_is_booked_in_the_write_that_settles(end: dict[str, Any], end_class: str, field: str) -> None:
    stage = Stage().running().ended(**end)
    plan = stage.settled()
    assert plan.status is not None
    assert plan.status.attempts[-1].settled_at is not None
    assert getattr(plan.status.retries, field).used == 1
    assert plan.status.attempts[-1].end_class == end_class
    assert stage.state == "Unknown/Retrying"
    assert events(plan) == ["Retrying"]


@pytest.mark.parametrize("field", ["application", "infrastructure", "eviction"])
def test_zero_means_zero(field: str) -> None:
    ends: dict[str, dict[str, Any]] = {
        "application": {"reason": FailureReason.INTERNAL},
        "infrastructure": {"reason": FailureReason.FENCED},
        "eviction": {"outcome": Outcome.STOPPED},
    }
    stage = Stage(spec=spec(failurePolicy={"attempts": {field: 0}})).running().ended(**ends[field])
    stage.settled()
    assert stage.state == "False/RetriesExhausted"
    assert f"0 of 0 retries for {field.capitalize()} ends" in stage.condition(Condition.SUCCEEDED).message
    stage.torn_down()
    assert not only(stage.decide(1000), model.CreateRayJob)


def test_retries_are_used_up_one_by_one_and_raised_while_running() -> None:
    stage = Stage(spec=spec(failurePolicy={"attempts": {"application": 1}}))
    stage.running().ended().settled()
    stage.torn_down()
    stage.now += 11
    stage.running()
    assert stage.status.attempt == 2
    stage.spec = spec(failurePolicy={"attempts": {"application": 2}})
    stage.ended().settled()
    assert stage.status.retries.application.limit == 2
    assert stage.status.retries.application.used == 2
    assert stage.state == "Unknown/Retrying"


def test_permanent_cause_is_never_retried() -> None:
    stage = Stage().running().ended(reason=FailureReason.BAD_ENTRYPOINT, message="no module my_pkg")
    stage.settled()
    assert stage.state == "False/PermanentFailure"
    assert "my_pkg" in stage.condition(Condition.SUCCEEDED).message
    assert stage.status.retries.application.used == 0


def test_unknown_end_is_never_retried_by_itself() -> None:
    stage = Stage().running().ended("Failed", "RUNNING")
    stage.settled()
    assert stage.state == "False/Failed"
    assert stage.attempt.end_class == "Unknown"


def test_next_attempt_waits_for_the_backoff_and_for_the_last_pod() -> None:
    stage = Stage().running().ended()
    plan = stage.settled()
    assert only(plan, model.CreateRayJob) == []
    plan = stage.decide(30)
    assert "CreateRayJob" not in kinds(plan)  # pods are left
    stage.torn_down()
    plan = stage.decide(0)
    assert kinds(plan) == ["WriteStatus", "EnsureHold", "CreateRayJob"]
    assert stage.status.attempt == 2
    assert stage.attempt.ray_job.endswith("-a2")
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).reason == "WaitingForReceipt"


def test_backoff_is_kept() -> None:
    stage = Stage(spec=spec(failurePolicy={"backoff": {"initialSeconds": 50, "maxSeconds": 60}})).running()
    stage.ended().settled()
    stage.torn_down()
    plan = stage.decide(5)
    assert "CreateRayJob" not in kinds(plan)
    assert plan.wake_at is not None
    assert plan.wake_at > stage.now
    assert "CreateRayJob" in kinds(stage.decide(50))


@pytest.mark.parametrize(
    ("report", "reason", "waits"),
    [
        pytest.param(None, FailureReason.STORAGE_DENIED, False, id="refused like the driver"),
        pytest.param({}, FailureReason.STORAGE_DENIED, True, id="a trial had reported"),
        pytest.param({"best": None}, FailureReason.STORAGE_DENIED, True, id="a trial had reported no objective"),
        pytest.param(None, FailureReason.INTERNAL, True, id="the driver was not refused"),
    ],
)
def test_a_refused_look_is_waited_for_unless_nothing_can_be_owed(
    report: dict[str, Any] | None, reason: FailureReason, waits: bool
) -> None:
    stage = Stage().running()
    if report is not None:
        stage.reporting(**report).decide(5)
    stage.ended(reason=reason)
    stage.settled(Proof.UNKNOWN, denied=True)
    assert (stage.attempt.settled_at is None) == waits


def test_an_unreadable_store_is_looked_at_again_after_ten_seconds() -> None:
    stage = Stage().running().ended()
    stage.settled(Proof.UNKNOWN)
    assert not only(stage.decide(9), model.Settle)
    assert only(stage.decide(1), model.Settle)


def test_an_end_without_a_time_moves_no_lease() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, ended_at=None)
    assert kinds(stage.decide(5)) == ["WriteStatus", "Settle"]
    assert not only(stage.decide(500), model.PatchRayJob)


def test_a_cause_of_a_newer_release_is_an_unknown_end() -> None:
    stage = Stage().running().ended()
    stage.decide()
    newer = stage.attempt.model_copy(update={"reason": "StruckByLightning", "message": "a flash"})
    stage.status = stage.status.model_copy(update={"attempts": [newer]})
    stage.looked(digest="").decide(5)
    assert stage.attempt.end_class == "Unknown"
    assert "a flash" in stage.condition(Condition.SUCCEEDED).message


def test_a_stop_is_named_once() -> None:
    once = {"attempts": {"startup": 0}}
    stage = Stage(spec=spec(deadlines={"queuedSeconds": 50, "startupSeconds": 1000}, failurePolicy=once)).launched()
    stage.decide(60)
    stage.settled()
    assert stage.attempt.stop_reason == "QueuedDeadlineExceeded"
    message = stage.condition(Condition.SUCCEEDED).message
    assert message.startswith("QueuedDeadlineExceeded: no driver had started (0 of 0 retries")
