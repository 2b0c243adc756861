"""Stories of attempts that end: by their driver, KubeRay, Kueue, a node, or nobody knows."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core.core_builders import head
from tests.unit.core.story_parts import obey, second, story, told
from tests.unit.core.told import Told
from trainsweep.contract.documents import FailureReason, Outcome, Phase
from trainsweep.core.model import (
    ClusterView,
    Proof,
    Unreadable,
)


@story
def fails_until_its_retries_are_used_up() -> Told:
    stage = told(failurePolicy={"attempts": {"application": 1}})
    for _ in range(2):
        stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL, message="boom")
        stage.settled()
        stage.torn_down()
        stage.decide(60)
    return stage


@story
def a_cause_that_no_retry_mends() -> Told:
    stage = second().ended(outcome=Outcome.FAILED, reason=FailureReason.BAD_ENTRYPOINT, message="no module named train")
    assert isinstance(stage, Told)
    stage.settled()
    stage.torn_down()
    return stage


@story
def too_many_trials_failed() -> Told:
    stage = told()
    stage.running().waiting().looked(outcome=Outcome.MAX_FAILED_TRIALS)
    obey(stage)
    stage.ended(outcome=Outcome.MAX_FAILED_TRIALS)
    stage.decide(5)
    return stage


@story
def its_head_is_killed_for_memory() -> Told:
    stage = told()
    stage.running()
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, head_ready=False, head_reason="ContainersNotReady")
    stage.pods = (head(phase="Failed", exit_reason="OOMKilled"),)
    stage.settled()
    return stage


@story
def its_pods_can_never_start() -> Told:
    stage = told()
    stage.launched()
    stage.pods = (
        head(
            phase="Pending", ready=False, problem_layer="Image", problem_reason="InvalidImageName", started_at=stage.now
        ),
    )
    stage.decide(60)
    stage.decide(1)
    stage.settled()
    return stage


@story
def kuberay_refuses_it() -> Told:
    stage = told()
    stage.launched().job_is("ValidationFailed", message="the name is too long")
    stage.decide(5)
    stage.settled()
    return stage


@story
def the_ray_job_is_deleted_by_a_person() -> Told:
    stage = second()
    stage.job, stage.cluster, stage.pods = None, None, ()
    stage.decide(5)
    stage.settled()
    return stage


@story
def its_cluster_is_left_behind() -> Told:
    stage = second().orphaned()
    assert isinstance(stage, Told)
    obey(stage)
    stage.decide(5)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    obey(stage)
    stage.reporting(Phase.ENDED).decide(5)
    stage.settled(outcome=Outcome.STOPPED)
    stage.decide(5)
    stage.orphans, stage.cluster, stage.pods, stage.hold = (), None, (), None
    stage.decide(5)
    return stage


@story
def a_left_driver_is_silent() -> Told:
    stage = told()
    stage.running().reporting().orphaned()
    stage.decide(5)
    stage.decide(59)
    stage.decide(1)
    return stage


@story
def kueue_takes_the_cluster() -> Told:
    stage = told()
    stage.running().job_is("Suspending", "RUNNING", suspended=True)
    stage.decide(5)
    stage.job_is("Suspended", "", suspended=True)
    stage.pods, stage.cluster = (), None
    stage.decide(5)
    stage.settled()
    stage.torn_down()
    stage.now += 60
    stage.title("the second attempt is queued").launched().job_is("Suspended", "", suspended=True)
    stage.decide(5)
    return stage


@story
def kuberay_calls_a_running_job_failed() -> Told:
    stage = told()
    stage.running().reporting().job_is("Failed", "FAILED", message="The RayJob submitter finished at 12:00")
    stage.decide(5)
    stage.settled(outcome=Outcome.COMPLETED)
    return stage


@story
def its_last_attempt_cannot_be_proven() -> Told:
    """Released after the hold, and said so."""
    stage = told(failurePolicy={"attempts": {"application": 0}})
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled(Proof.UNKNOWN)
    stage.decide(600)
    stage.torn_down()
    return stage


@story
def its_ray_job_goes_before_anything_is_known() -> Told:
    """Nobody can say whether a driver ran: the store is away too."""
    stage = told()
    stage.launched()
    stage.decide(60)
    stage.job, stage.progress = None, Unreadable("503")
    stage.title("deleted").deleted_at = stage.now
    stage.decide(5)
    stage.decide(5)
    return stage


@story
def fails_with_a_receipt() -> Told:
    """The receipt's word counts where the driver's last one is another."""
    stage = told()
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled(Proof.PERSISTED, "d" * 64)
    return stage


@story
def fails_too_many_trials_without_a_receipt() -> Told:
    """No receipt has a word: the driver's last one counts."""
    stage = told()
    stage.running().ended(outcome=Outcome.MAX_FAILED_TRIALS)
    stage.settled(Proof.PERSISTED)
    return stage
