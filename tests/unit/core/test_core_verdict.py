"""The verdict on a waiting driver's receipt."""

from __future__ import annotations

import pytest

from tests.unit.core.core_builders import (
    DIGEST,
    OTHER_DIGEST,
    Stage,
    control_of,
    events,
    head,
    kinds,
    missing,
    only,
    spec,
)
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Control, Limits, Phase, Verdict
from trainsweep.core import model
from trainsweep.core.draft import Draft
from trainsweep.core.model import Proof
from trainsweep.core.verification import recorded_proof


def told(stage: Stage, digest: str = DIGEST, result: str = "Persisted") -> Stage:
    """The head pod carries this verdict."""
    verdict = Verdict.model_validate({"receipt_digest": digest, "result": result})
    stage.pods = (head(control=Control(attempt_id=stage.own, verdict=verdict, limits=Limits())),)
    return stage


def test_waiting_driver_asks_for_one_look_at_its_receipt() -> None:
    stage = Stage().running().waiting()
    look = only(stage.decide(5), model.Settle)
    assert look == [model.Settle(stage.own, DIGEST)]
    stage.settling = True
    assert not only(stage.decide(5), model.Settle)


def test_persisted_is_told_once_and_written_first() -> None:
    stage = Stage().running().waiting()
    stage.decide(5)
    plan = stage.looked().decide(5)
    assert kinds(plan) == ["WriteStatus", "PatchControl"]
    assert events(plan) == ["Verified"]
    verdict = control_of(plan).verdict
    assert verdict is not None
    assert (verdict.receipt_digest, verdict.result) == (DIGEST, "Persisted")
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"
    assert stage.status.checkpoints.receipt_digest == DIGEST
    assert kinds(told(stage).decide(5)) == []


def test_trials_are_finished_and_state_is_verifying_without_a_write_of_their_own() -> None:
    stage = Stage().running().waiting()
    assert "WriteStatus" not in kinds(stage.decide(5))
    stage.looked().decide(5)
    assert stage.condition(Condition.TRIALS_FINISHED).status == "True"
    assert stage.state == "Unknown/Verifying"


def test_restarted_operator_repeats_a_recorded_verdict_without_looking_again() -> None:
    stage = Stage().running().waiting()
    stage.looked().decide(5)
    stage.settlement, stage.written_at = None, None
    plan = stage.decide(5)
    assert control_of(plan).verdict is not None
    assert not only(plan, model.Settle)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


def test_missing_is_told_with_the_files_and_a_new_receipt_gets_its_own_verdict() -> None:
    stage = Stage().running().waiting()
    plan = stage.looked(Proof.MISSING).decide(5)
    verdict = control_of(plan).verdict
    assert verdict is not None
    assert (verdict.result, verdict.missing) == ("Missing", [missing()])
    condition = stage.condition(Condition.CHECKPOINTS_VERIFIED)
    assert (condition.status, condition.reason) == ("False", "FilesMissing")
    assert "model.pt" in condition.message
    told(stage, DIGEST, "Missing").reporting(Phase.MENDING, receipt_digest=DIGEST)
    assert not only(stage.decide(5), model.Settle)
    stage.waiting(OTHER_DIGEST)
    assert only(stage.decide(5), model.Settle) == [model.Settle(stage.own, OTHER_DIGEST)]
    verdict = control_of(stage.looked(digest=OTHER_DIGEST).decide(5)).verdict
    assert verdict is not None
    assert (verdict.receipt_digest, verdict.result) == (OTHER_DIGEST, "Persisted")
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "True"


def test_of_many_missing_files_the_driver_is_told_the_first_sixteen() -> None:
    stage = Stage().running().waiting()
    many = tuple(missing().model_copy(update={"file": f"{i}.pt"}) for i in range(20))
    verdict = control_of(stage.looked(Proof.MISSING, missing=many).decide(5)).verdict
    assert verdict is not None
    assert [m.file for m in verdict.missing] == [f"{i}.pt" for i in range(16)]


def test_a_proof_is_read_back_from_the_status_as_it_was_recorded() -> None:
    stage = Stage().running().waiting()
    stage.looked().decide(5)
    assert recorded_proof(Draft(stage.observed(), stage.now + 60)) == stage.settlement


@pytest.mark.parametrize(("proof", "reason"), [(Proof.UNKNOWN, "StoreUnreadable"), (Proof.INVALID, "ReceiptInvalid")])
def test_undecided_gives_no_verdict_and_is_looked_at_again(proof: Proof, reason: str) -> None:
    stage = Stage().running().waiting()
    plan = stage.looked(proof).decide(5)
    assert not only(plan, model.PatchControl)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).reason == reason
    assert not only(stage.decide(1), model.Settle)
    assert only(stage.decide(10), model.Settle)


def test_unknown_is_never_counted_as_missing() -> None:
    stage = Stage().running().waiting()
    stage.looked(Proof.UNKNOWN).decide(5)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "Unknown"


def test_look_at_another_receipt_is_no_verdict_on_this_one() -> None:
    stage = Stage().running().waiting(OTHER_DIGEST)
    plan = stage.looked(digest=DIGEST).decide(5)
    assert not only(plan, model.PatchControl)
    assert only(plan, model.Settle) == [model.Settle(stage.own, OTHER_DIGEST)]


def test_heartbeat_of_another_attempt_is_not_this_ones() -> None:
    stage = Stage().running().waiting()
    assert stage.progress is not None
    stage.progress = stage.progress.model_copy(update={"attempt_id": "9-0b0e6c1e"})
    assert not only(stage.decide(5), model.Settle)
    assert stage.status.trials.succeeded == 0


def test_nothing_owed_is_said_and_the_driver_is_let_go() -> None:
    stage = Stage().running().waiting()
    plan = stage.looked(required=0, verified=0).decide(5)
    assert control_of(plan).verdict is not None
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).reason == "NothingToVerify"
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).status == "False"


def test_nothing_owed_with_requirement_none_is_true() -> None:
    stage = Stage(spec=spec(checkpoints={"require": "None"})).running().waiting()
    stage.looked(required=0, verified=0).decide(5)
    assert stage.condition(Condition.CHECKPOINTS_VERIFIED).reason == "NotRequired"
    stage.job_is("Complete", "SUCCEEDED").decide(5)
    assert stage.state == "True/Completed"


def test_control_of_an_earlier_attempt_is_replaced() -> None:
    stage = Stage().running().waiting()
    stage.pods = (head(control=Control(attempt_id="7-0b0e6c1e", stop=None)),)
    control = control_of(stage.looked().decide(5))
    assert control.attempt_id == stage.own
