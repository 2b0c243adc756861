"""How an attempt ended: every rule is hit, every combination has one answer, and KubeRay's words mean causes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.core_builders import Stage, head
from trainsweep.api.conditions import Condition, Reason
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.core.ends import RULES, Cause, EndClass, EndFacts, Stop, classify
from trainsweep.core.model import ClusterView, Proof

A, I, E, S = EndClass.APPLICATION, EndClass.INFRASTRUCTURE, EndClass.EVICTION, EndClass.STARTUP  # noqa: E741
CASES: list[tuple[dict[str, Any], EndClass, bool, Reason]] = [
    ({"cause": Cause.JOB_SUCCEEDED, "outcome": Outcome.COMPLETED}, EndClass.SUCCESS, False, Reason.COMPLETED),
    ({"cause": Cause.JOB_SUCCEEDED, "outcome": Outcome.GOAL_REACHED}, EndClass.SUCCESS, False, Reason.GOAL_REACHED),
    (
        {"cause": Cause.UNKNOWN, "outcome": Outcome.COMPLETED, "proof": Proof.PERSISTED},
        EndClass.SUCCESS,
        False,
        Reason.COMPLETED,
    ),
    ({"cause": Cause.STARTUP_DEADLINE}, S, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "stop": Stop.STARTUP_DEADLINE}, S, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "stop": Stop.RUN_DEADLINE}, EndClass.DEADLINE, True, Reason.DEADLINE_EXCEEDED),
    ({"cause": Cause.STOP_NOT_OBEYED, "stop": Stop.TOTAL_DEADLINE}, EndClass.DEADLINE, True, Reason.DEADLINE_EXCEEDED),
    (
        {"cause": Cause.JOB_FAILED, "outcome": Outcome.DEADLINE_EXCEEDED},
        EndClass.DEADLINE,
        True,
        Reason.DEADLINE_EXCEEDED,
    ),
    ({"cause": Cause.BACKSTOP}, EndClass.DEADLINE, True, Reason.DEADLINE_EXCEEDED),
    ({"cause": Cause.JOB_FAILED, "outcome": Outcome.MAX_FAILED_TRIALS}, A, True, Reason.MAX_FAILED_TRIALS),
    (
        {"cause": Cause.JOB_FAILED, "outcome": Outcome.COMPLETED, "proof": Proof.MISSING},
        A,
        True,
        Reason.CHECKPOINTS_MISSING,
    ),
    ({"cause": Cause.JOB_FAILED, "driver_reason": FailureReason.CHECKPOINTS_LOST}, A, True, Reason.CHECKPOINTS_MISSING),
    ({"cause": Cause.JOB_FAILED, "driver_reason": FailureReason.BAD_ENTRYPOINT}, A, True, Reason.PERMANENT_FAILURE),
    ({"cause": Cause.JOB_FAILED, "driver_reason": FailureReason.STORAGE_DENIED}, A, True, Reason.PERMANENT_FAILURE),
    ({"cause": Cause.JOB_FAILED, "message": "No module named trainjobs"}, A, True, Reason.PERMANENT_FAILURE),
    (
        {"cause": Cause.JOB_FAILED, "driver_reason": FailureReason.STORAGE_UNAVAILABLE},
        I,
        False,
        Reason.RETRIES_EXHAUSTED,
    ),
    ({"cause": Cause.JOB_FAILED, "driver_reason": FailureReason.FENCED}, I, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.HEAD_LOST}, I, False, Reason.RETRIES_EXHAUSTED),
    # Another attempt can mend what is missing: only the driver knows that it cannot be mended.
    (
        {"cause": Cause.HEAD_LOST, "outcome": Outcome.COMPLETED, "proof": Proof.MISSING},
        I,
        False,
        Reason.RETRIES_EXHAUSTED,
    ),
    ({"cause": Cause.RAY_JOB_DELETED}, E, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.SUSPENDED}, E, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_STOPPED}, E, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "outcome": Outcome.STOPPED}, E, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.REFUSED}, A, True, Reason.KUBERAY_REFUSED),
    ({"cause": Cause.CANNOT_START}, S, True, Reason.PERMANENT_FAILURE),
    (
        {"cause": Cause.JOB_SUCCEEDED, "proof": Proof.UNKNOWN},
        EndClass.UNKNOWN,
        True,
        Reason.VERIFICATION_TIMED_OUT,
    ),
    ({"cause": Cause.JOB_FAILED}, A, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_SUCCEEDED, "proof": Proof.PERSISTED}, A, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.UNKNOWN}, EndClass.UNKNOWN, True, Reason.UNKNOWN),
    ({"cause": Cause.STOP_NOT_OBEYED, "stop": "SomethingNew"}, EndClass.UNKNOWN, True, Reason.UNKNOWN),
    ({"cause": Cause.HEAD_LOST, "stop": Stop.SUSPENDED}, EndClass.SUSPENDED, False, Reason.SUSPENDED),
    (
        {"cause": Cause.JOB_FAILED, "stop": Stop.SUSPENDED, "outcome": Outcome.STOPPED},
        EndClass.SUSPENDED,
        False,
        Reason.SUSPENDED,
    ),
    (
        {"cause": Cause.JOB_FAILED, "stop": Stop.SUSPENDED, "driver_reason": FailureReason.BAD_ENTRYPOINT},
        A,
        True,
        Reason.PERMANENT_FAILURE,
    ),
    # A stop that came too late takes nothing away.
    (
        {"cause": Cause.JOB_SUCCEEDED, "outcome": Outcome.COMPLETED, "stop": Stop.RUN_DEADLINE},
        EndClass.SUCCESS,
        False,
        Reason.COMPLETED,
    ),
]


@pytest.mark.parametrize(("facts", "end_class", "permanent", "reason"), CASES)
def test_facts_are_classified(facts: dict[str, Any], end_class: EndClass, permanent: bool, reason: Reason) -> None:
    verdict = classify(EndFacts(**facts))
    assert (verdict.end_class, verdict.permanent, verdict.reason) == (end_class, permanent, reason)


def test_every_rule_is_hit_by_a_case() -> None:
    hit = {next(i for i, rule in enumerate(RULES) if rule.test(EndFacts(**facts))) for facts, *_ in CASES}
    assert [rule.text for i, rule in enumerate(RULES) if i not in hit] == []


@given(
    st.builds(
        EndFacts,
        cause=st.sampled_from(Cause),
        stop=st.sampled_from(["", *Stop, "other"]),
        outcome=st.sampled_from([None, *Outcome]),
        driver_reason=st.sampled_from(["", *FailureReason, "other"]),
        proof=st.sampled_from([None, *Proof]),
        message=st.sampled_from(["", "No module named 'trainjobs'", "boom"]),
    )
)
def test_every_combination_has_one_answer_that_can_be_acted_on(facts: EndFacts) -> None:
    verdict = classify(facts)
    if verdict.end_class is EndClass.SUCCESS:
        assert facts.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED)
        assert facts.cause is not Cause.JOB_FAILED
        assert facts.cause is Cause.JOB_SUCCEEDED or facts.proof is Proof.PERSISTED
    if verdict.end_class in (EndClass.DEADLINE, EndClass.UNKNOWN):
        assert verdict.permanent
    if not verdict.permanent:
        assert verdict.reason in (
            Reason.RETRIES_EXHAUSTED,
            Reason.COMPLETED,
            Reason.GOAL_REACHED,
            Reason.SUSPENDED,
        )


# ---------------------------------------------------------------------------------------------- what KubeRay says

SAID: list[tuple[str, str, dict[str, str], str]] = [
    ("Complete", "SUCCEEDED", {}, "JobSucceeded"),
    ("Complete", "STOPPED", {}, "JobStopped"),
    ("Complete", "Failure", {}, "Unknown"),
    ("Failed", "FAILED", {"reason": "AppFailed"}, "JobFailed"),
    ("Failed", "RUNNING", {"reason": "DeadlineExceeded"}, "BackstopDeadlineExceeded"),
    ("Failed", "", {"reason": "PreRunningDeadlineExceeded"}, "StartupDeadlineExceeded"),
    ("Failed", "RUNNING", {"reason": "JobStatusCheckTimeoutExceeded"}, "Unknown"),
    ("Failed", "RUNNING", {"reason": "SubmissionFailed"}, "Unknown"),
    ("Failed", "FAILED", {"reason": "JobDeploymentStatusTransitionGracePeriodExceeded"}, "JobFailed"),
    (
        "Failed",
        "FAILED",
        {
            "reason": "JobDeploymentStatusTransitionGracePeriodExceeded",
            "message": "The RayJob submitter finished at 12:00 but the ray job did not reach terminal state within 30s",
        },
        "Unknown",
    ),
    ("ValidationFailed", "RUNNING", {}, "KubeRayRefused"),
    ("Suspended", "", {}, "Suspended"),
]


@pytest.mark.parametrize(("deployment", "job", "more", "cause"), SAID)
def test_kuberays_words_mean_a_cause(deployment: str, job: str, more: dict[str, str], cause: str) -> None:
    stage = Stage().running().job_is(deployment, job, **more)
    stage.decide(5)
    assert stage.attempt.reason == cause
    assert stage.attempt.ended_at is not None


@pytest.mark.parametrize("job", ["PENDING", "RUNNING", "Failure", "SUCCEEDED", ""])
def test_no_job_status_ends_a_running_ray_job(job: str) -> None:
    stage = Stage().running().job_is("Running", job)
    stage.decide(5)
    assert stage.attempt.ended_at is None


@pytest.mark.parametrize("deployment", ["", "Initializing", "Running", "Suspending", "Suspended"])
def test_a_queued_ray_job_is_no_eviction(deployment: str) -> None:
    stage = Stage().launched().job_is(deployment, suspended=True)
    stage.decide(5)
    assert stage.attempt.ended_at is None
    assert stage.condition(Condition.CLUSTER_READY).reason == "Queued"


def test_lost_head_is_seen_on_the_cluster_while_the_ray_job_says_running() -> None:
    stage = Stage().running().head_is_lost()
    stage.decide(10)
    assert stage.attempt.reason == "HeadLost"
    assert stage.condition(Condition.CLUSTER_READY).reason == "HeadLost"


def test_dead_head_pod_names_its_reason() -> None:
    stage = Stage().running()
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, head_ready=False, head_reason="ContainersNotReady")
    stage.pods = (head(phase="Failed", exit_reason="OOMKilled"),)
    stage.decide(10)
    assert stage.attempt.reason == "HeadLost"
    assert "OOMKilled" in stage.attempt.message


def test_kuberay_1_7_that_gives_up_on_a_lost_head_is_a_lost_head() -> None:
    stage = Stage().running().head_is_lost().job_is("Failed", "RUNNING", reason="JobStatusCheckTimeoutExceeded")
    stage.decide(300)
    assert stage.attempt.reason == "HeadLost"


def test_head_that_is_not_there_yet_is_not_lost() -> None:
    stage = Stage().launched()
    stage.cluster = ClusterView("c", head_ready=False, head_reason="HeadPodNotFound")
    stage.decide(5)
    assert stage.attempt.ended_at is None


def test_head_that_is_not_ready_for_a_moment_is_not_lost() -> None:
    stage = Stage().running()
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, head_ready=False, head_reason="ContainersNotReady")
    stage.decide(5)
    assert stage.attempt.ended_at is None


def test_image_that_can_never_be_had_is_given_a_minute() -> None:
    stage = Stage().launched()
    stage.pods = (
        head(phase="Pending", problem_layer="Image", problem_reason="InvalidImageName", problem_message="a b"),
    )
    stage.decide(30)
    assert stage.attempt.ended_at is None
    stage.decide(40)
    assert stage.attempt.reason == "CannotStart"


def test_vanished_ray_job_is_an_eviction() -> None:
    stage = Stage().running()
    stage.job, stage.pods = None, ()
    stage.settled()
    assert stage.attempt.end_class == "Eviction"
    assert stage.status.retries.eviction.used == 1
