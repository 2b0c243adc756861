"""What a sweep that has failed says at its end: what happened, and what to do about it."""

from __future__ import annotations

import pytest

from tests.unit.core.core_builders import Stage, spec
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.status import CheckpointsStatus
from trainsweep.contract.documents import Outcome
from trainsweep.core.cures import with_cure
from trainsweep.core.ends import RULES, EndClass
from trainsweep.core.model import Proof

IN_THEIR_WORDS = {
    Reason.BUDGET_EXCEEDED,
    Reason.RETRIES_EXHAUSTED,
    Reason.STARTUP_DEADLINE_EXCEEDED,
    Reason.QUEUED_DEADLINE_EXCEEDED,
    Reason.STALL_DEADLINE_EXCEEDED,
    Reason.UNKNOWN,
}
"""Reasons whose messages name the cure themselves: the field to raise, or that nobody knows."""
NO_FAILURE = (EndClass.SUCCESS, EndClass.SUSPENDED)
LOST = CheckpointsStatus(missing=["t0 checkpoint_000003/model.pt: Absent"])


@pytest.mark.parametrize(
    "reason", sorted({r.verdict.reason for r in RULES if r.verdict.end_class not in NO_FAILURE} - IN_THEIR_WORDS)
)
def test_every_failure_says_what_to_do(reason: Reason) -> None:
    told = with_cure(reason, "It broke.", "digits", LOST, 1024)
    assert told.startswith("It broke; ")
    assert told.endswith(".")
    assert "{" not in told


def test_who_owes_nothing_is_not_sent_to_look_for_lost_files() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED")
    stage.settled(Proof.PERSISTED, "d" * 64, required=0, verified=0)
    message = stage.condition(Condition.SUCCEEDED).message
    assert "No committed checkpoint is owed" in message
    assert "lifecycle" not in message


def test_a_long_account_leaves_room_for_the_cure() -> None:
    told = with_cure(Reason.PERMANENT_FAILURE, "x" * 2000, "digits", CheckpointsStatus(), 1024)
    assert len(told) == 1024
    assert told.endswith(" ...; no further attempt mends this: correct it and create the sweep again.")


def test_a_driver_without_a_word_is_not_quoted() -> None:
    stage = Stage(spec=spec(deadlines={"startupSeconds": 50, "runSeconds": 100})).running()
    stage.ended(outcome=Outcome.MAX_FAILED_TRIALS).settled()
    assert stage.condition(Condition.SUCCEEDED).message == (
        "JobFailed, without a message; `trainsweep logs digits` has the error of each trial."
    )


def test_a_store_that_nobody_could_read_is_named_whatever_the_job_said() -> None:
    stage = Stage().running().job_is("Complete", "SUCCEEDED", message="Job finished successfully.")
    stage.decide()
    stage.looked(Proof.UNKNOWN).decide(600)
    message = stage.condition(Condition.SUCCEEDED).message
    assert (
        message
        == "The store could not be read for 600 s: it is Unknown; mend the access and run `trainsweep verify digits`."
    )
