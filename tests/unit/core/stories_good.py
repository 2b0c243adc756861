"""Stories of runs that end well, and of what is proven, mended, or neither."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.core_builders import head, spec
from tests.unit.core.story_parts import completed, obey, second, story, told
from tests.unit.core.told import Told
from trainsweep.contract.documents import ADOPTED, FailureReason, Outcome
from trainsweep.core.model import (
    ClusterView,
    ExportLook,
    ExportState,
    Observed,
    PodView,
    Proof,
    RayJobView,
    Unreadable,
)


@story
def completes() -> Told:
    stage = told()
    stage.whole = True
    stage.title("applied").running()
    stage.title("it reports").reporting(last_step_at=stage.now).decide(5)
    stage.decide(60)
    completed(stage)
    stage.title("torn down").torn_down()
    due = stage.decide(1).wake_at
    assert due is not None
    stage.title("its object goes after its time").now = due - 1
    stage.decide()
    stage.decide(1)
    return stage


@story
def completes_in_its_second_attempt() -> Told:
    stage = told()
    stage.whole = True
    stage = completed(second(stage))
    stage.torn_down()
    stage.decide(1300)
    return stage


@story
def waits_for_kueue_then_for_its_head() -> Told:
    stage = told()
    stage.launched()
    assert isinstance(stage.job, RayJobView)
    stage.title("Kueue has not admitted it").job = replace(stage.job, suspended=True, deployment_status="Suspended")
    stage.decide(5)
    stage.title("admitted").job = replace(stage.job, suspended=False, deployment_status="Initializing")
    stage.decide(5)
    stage.pods = (head(phase="Pending", ready=False), PodView("w", "w-uid", False, "Pending"))
    stage.decide(5)
    stage.job_is("Running", "PENDING")
    stage.cluster = ClusterView(name="c", state="ready", head_ready=True, provisioned=True)
    stage.pods = (head(gpus=0, cpus=2, started_at=stage.now), PodView("w", "w-uid", False, "Running", gpus=1, cpus=1))
    stage.title("head and worker run").decide(5)
    return stage


@story
def is_exported() -> Told:
    class Exporting(Told):
        export: ExportLook | None = None

        def observed(self) -> Observed:
            seen = super().observed()
            return replace(seen, store=replace(seen.store, export=self.export))

    stage = Exporting(spec=spec(checkpoints={"export": {"uri": "s3://bucket/models"}}))
    stage.running()
    completed(stage)
    stage.title("an unreadable copy").export = ExportLook(
        stage.own, ExportState.UNKNOWN, made_at=stage.now, message="503"
    )
    stage.decide(9)
    stage.decide(1)
    stage.export = ExportLook(
        stage.own, ExportState.PROVEN, made_at=stage.now, uri="s3://bucket/models/x", files=3, bytes=9
    )
    stage.title("a proven copy").decide(5)
    return stage


@story
def is_adopted() -> Told:
    stage = told()
    stage.running().waiting().looked(outcome=Outcome.COMPLETED, outcome_reason=ADOPTED)
    obey(stage)
    stage.ended("Complete", "SUCCEEDED", outcome=Outcome.COMPLETED, reason=ADOPTED)
    stage.decide(5)
    return stage


@story
def owes_nothing() -> Told:
    stage = told(checkpoints={"require": "None"})
    stage.running().waiting().looked(required=0, verified=0, files=0, bytes=0)
    obey(stage)
    stage.job_is("Complete", "SUCCEEDED").decide(5)
    return stage


@story
def lost_checkpoints_are_mended() -> Told:
    stage = second().waiting()
    stage.title("missing").looked(Proof.MISSING, advice="versioning is off")
    obey(stage)
    stage.title("a new receipt").waiting("e" * 64).decide(5)
    stage.looked(Proof.PERSISTED, "e" * 64)
    obey(stage)
    return stage


@story
def lost_checkpoints_stay_lost() -> Told:
    stage = told()
    stage.running().waiting().looked(Proof.MISSING)
    obey(stage)
    stage.ended(outcome=Outcome.COMPLETED, reason=FailureReason.CHECKPOINTS_LOST)
    stage.settled(Proof.MISSING, "d" * 64)
    stage.torn_down()
    return stage


@story
def the_store_cannot_be_read() -> Told:
    stage = told()
    stage.running().waiting()
    for proof, more in ((Proof.UNKNOWN, {}), (Proof.UNKNOWN, {"denied": True}), (Proof.INVALID, {})):
        stage.title(f"{proof} {more}").looked(proof, **more)
        stage.decide(9)
        stage.decide(1)
    stage.title("it fails, and nobody can look").ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled(Proof.UNKNOWN, denied=True)
    stage.decide(139)
    stage.decide(1)
    stage.title("a second before the end of the hold").decide(458)
    stage.title("the end of the hold").decide(1)
    return stage


@story
def nobody_has_looked() -> Told:
    stage = told()
    stage.running().ended("Complete", "SUCCEEDED")
    stage.decide(5)
    stage.settling = True
    stage.decide(600)
    stage.decide(3599)
    stage.title("an hour after the longest hold").decide(1)
    return stage


@story
def a_receipt_contradicts_the_store() -> Told:
    stage = told()
    stage.running().ended("Complete", "SUCCEEDED")
    stage.settled(Proof.INVALID, "d" * 64)
    stage.decide(58)
    stage.decide(1)
    return stage


@story
def the_last_word_cannot_be_read() -> Told:
    stage = second()
    stage.job_is("Failed", "FAILED").end = Unreadable("503")
    stage.settled()
    stage.decide(5)
    stage.end = None
    stage.decide(5)
    return stage


@story
def is_warned_of_what_is_not_proven() -> Told:
    stage = told(checkpoints={"verify": {"timeoutSeconds": 100, "onMissing": "Warn"}})
    stage.running().ended("Complete", "SUCCEEDED")
    stage.settled(Proof.MISSING, "d" * 64)
    return stage


@story
def completes_and_cannot_be_verified() -> Told:
    """The driver says that all is well, and until the end of the hold nobody can look."""
    stage = told()
    stage.running().ended("Complete", "SUCCEEDED", outcome=Outcome.COMPLETED)
    stage.settled(Proof.UNKNOWN)
    stage.decide(598)
    stage.title("the end of the hold").decide(1)
    return stage
