"""The export after the proof: looked at within the hold, said by its own condition, and no reason to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.core.core_builders import Stage, kinds, only, spec
from trainsweep.api.conditions import Condition
from trainsweep.contract.documents import Outcome
from trainsweep.core import model
from trainsweep.core.model import ExportLook, ExportState, Proof

EXPORT = {"export": {"uri": "s3://bucket/models"}}


class Exporting(Stage):
    export: ExportLook | None = None

    def observed(self) -> model.Observed:
        seen = super().observed()
        return replace(seen, store=replace(seen.store, export=self.export))

    def copy_is(self, state: ExportState, **more: Any) -> Exporting:
        self.export = ExportLook(self.own, state, made_at=self.now, **more)
        return self


def completed(**checkpoints: Any) -> Exporting:
    stage = Exporting(spec=spec(checkpoints=EXPORT | checkpoints))
    stage.running().waiting()
    stage.looked().decide(5)
    stage.job_is("Complete", "SUCCEEDED")
    return stage


def word(stage: Stage) -> str:
    found = stage.condition(Condition.EXPORTED)
    return f"{found.status}/{found.reason}"


def test_the_copy_is_looked_at_before_the_cluster_goes() -> None:
    stage = completed()
    plan = stage.decide(5)
    assert only(plan, model.Settle) == [model.Settle(stage.own, export=True)]
    assert "DeleteHold" not in kinds(plan)
    assert (stage.state, word(stage)) == ("Unknown/Settling", "Unknown/ExportUnverified")
    stage.settling = True
    assert not only(stage.decide(5), model.Settle)
    stage.settling = False
    stage.copy_is(ExportState.PROVEN, uri="s3://bucket/models/x", files=3, bytes=10)
    plan = stage.decide(5)
    assert "DeleteHold" in kinds(plan)
    assert (stage.state, word(stage)) == ("True/Completed", "True/Exported")
    assert stage.status.checkpoints.export_uri == "s3://bucket/models/x"


@pytest.mark.parametrize(
    ("state", "said"), [(ExportState.FAILED, "False/ExportFailed"), (ExportState.ABSENT, "False/NotExported")]
)
def test_a_failed_export_is_said_and_takes_nothing_from_success(state: ExportState, said: str) -> None:
    stage = completed().copy_is(state, message="could not copy")
    stage.decide(5)
    assert (stage.state, word(stage)) == ("True/Completed", said)
    assert "could not copy" in stage.condition(Condition.EXPORTED).message
    assert stage.status.checkpoints.export_uri == ""
    assert stage.status.checkpoints.verified_at is not None


def test_an_unreadable_copy_is_looked_at_again_and_holds_no_longer_than_the_hold() -> None:
    stage = completed()
    stage.decide(5)
    stage.copy_is(ExportState.UNKNOWN, message="403")
    assert not only(stage.decide(5), model.Settle)
    assert only(stage.decide(10), model.Settle) == [model.Settle(stage.own, export=True)]
    assert stage.state == "Unknown/Settling"
    stage.decide(200)
    assert (stage.state, word(stage)) == ("True/Completed", "Unknown/ExportUnverified")
    assert "403" in stage.condition(Condition.EXPORTED).message


def test_a_look_at_another_attempts_export_counts_for_nothing() -> None:
    stage = completed()
    stage.export = ExportLook("7-0b0e6c1e", ExportState.PROVEN, made_at=stage.now)
    stage.decide(5)
    assert stage.state == "Unknown/Settling"


def test_nothing_is_exported_of_what_is_not_proven_or_ended_otherwise() -> None:
    stage = Exporting(spec=spec(checkpoints=EXPORT))
    stage.running().job_is("Complete", "SUCCEEDED")
    stage.decide(5)
    stage.looked(Proof.MISSING).decide(5)
    assert (stage.state, word(stage)) == ("False/CheckpointsMissing", "False/NotExported")
    other = Exporting(spec=spec(checkpoints=EXPORT))
    other.running().job_is("Failed", "FAILED")
    other.decide(5)
    other.looked(outcome=Outcome.MAX_FAILED_TRIALS).decide(5)
    assert word(other) == "False/NotExported"


def test_without_an_export_there_is_no_condition() -> None:
    stage = Stage(spec=spec()).running().waiting()
    stage.looked().decide(5)
    stage.job_is("Complete", "SUCCEEDED").decide(5)
    assert not stage.has(Condition.EXPORTED)


def test_nothing_is_exported_where_no_checkpoint_is_owed() -> None:
    stage = Exporting(spec=spec(checkpoints=EXPORT))
    stage.running().waiting().looked(required=0, verified=0).decide(5)
    stage.job_is("Complete", "SUCCEEDED")
    plan = stage.decide(5)
    assert not only(plan, model.Settle)
    assert (stage.state, word(stage)) == ("False/CheckpointsMissing", "False/NotExported")


@pytest.mark.parametrize(("after", "state"), [(199, "Unknown/Settling"), (200, "True/Completed")])
def test_a_look_at_the_copy_is_waited_for_until_the_very_end_of_the_hold(after: float, state: str) -> None:
    stage = completed()
    stage.decide(5)
    stage.decide(after)
    assert (stage.state, word(stage)) == (state, "Unknown/ExportUnverified")
