"""How an attempt ended: every rule is hit, every combination has one answer, and KubeRay's words mean causes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.core_builders import Stage, head, spec
from trainsweep.api.conditions import Condition, Reason
from trainsweep.contract.documents import ADOPTED, FailureReason, Outcome
from trainsweep.core.ends import RULES, Cause, EndClass, EndFacts, Stop, classify
from trainsweep.core.model import ClusterView, Proof

A, I, E, S = EndClass.APPLICATION, EndClass.INFRASTRUCTURE, EndClass.EVICTION, EndClass.STARTUP  # noqa: E741  # the classes' initials
CASES: list[tuple[dict[str, Any], EndClass, bool, Reason]] = [
    ({"cause": Cause.JOB_SUCCEEDED, "outcome": Outcome.COMPLETED}, EndClass.SUCCESS, False, Reason.COMPLETED),
    ({"cause": Cause.JOB_SUCCEEDED, "outcome": Outcome.GOAL_REACHED}, EndClass.SUCCESS, False, Reason.GOAL_REACHED),
    (
        {"cause": Cause.UNKNOWN, "outcome": Outcome.COMPLETED, "proof": Proof.PERSISTED},
        EndClass.SUCCESS,
        False,
        Reason.COMPLETED,
    ),
    ({"cause": Cause.STARTUP_DEADLINE}, S, False, Reason.STARTUP_DEADLINE_EXCEEDED),
    ({"cause": Cause.JOB_FAILED, "stop": Stop.STARTUP_DEADLINE}, S, False, Reason.STARTUP_DEADLINE_EXCEEDED),
    ({"cause": Cause.NEVER_READY, "stop": Stop.QUEUED_DEADLINE}, S, False, Reason.QUEUED_DEADLINE_EXCEEDED),
    ({"cause": Cause.JOB_FAILED, "stop": Stop.NOT_AFTER}, EndClass.DEADLINE, True, Reason.DEADLINE_EXCEEDED),
    ({"cause": Cause.STOP_NOT_OBEYED, "stop": Stop.BUDGET}, EndClass.BUDGET, True, Reason.BUDGET_EXCEEDED),
    ({"cause": Cause.JOB_FAILED, "outcome": Outcome.BUDGET_EXCEEDED}, EndClass.BUDGET, True, Reason.BUDGET_EXCEEDED),
    (
        {"cause": Cause.JOB_FAILED, "outcome": Outcome.STOPPED, "driver_reason": Stop.STALL_DEADLINE},
        A,
        False,
        Reason.STALL_DEADLINE_EXCEEDED,
    ),
    ({"cause": Cause.STOP_NOT_OBEYED, "stop": Stop.STALL_DEADLINE}, I, False, Reason.STALL_DEADLINE_EXCEEDED),
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
    (
        {"cause": Cause.JOB_SUCCEEDED, "outcome": Outcome.COMPLETED, "driver_reason": ADOPTED},
        EndClass.SUCCESS,
        False,
        Reason.ADOPTED_FINISHED_RUN,
    ),
    # A driver that could leave no word: its exit code speaks.
    ({"cause": Cause.JOB_FAILED, "exit_code": 2}, A, True, Reason.PERMANENT_FAILURE),
    ({"cause": Cause.JOB_FAILED, "exit_code": 3}, A, True, Reason.PERMANENT_FAILURE),
    ({"cause": Cause.JOB_FAILED, "exit_code": 4}, I, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "exit_code": 5}, E, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "exit_code": 6}, A, True, Reason.CHECKPOINTS_MISSING),
    ({"cause": Cause.JOB_FAILED, "exit_code": 137}, A, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "exit_code": 1}, A, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "exit_code": 4, "driver_reason": "InternalError"}, A, False, Reason.RETRIES_EXHAUSTED),
    ({"cause": Cause.JOB_FAILED, "exit_code": 4, "outcome": Outcome.FAILED}, A, False, Reason.RETRIES_EXHAUSTED),
    # What it did say counts more.
    (
        {"cause": Cause.JOB_FAILED, "exit_code": 3, "outcome": Outcome.FAILED, "driver_reason": "StorageUnavailable"},
        I,
        False,
        Reason.RETRIES_EXHAUSTED,
    ),
    ({"cause": Cause.HEAD_OUT_OF_MEMORY}, A, False, Reason.RETRIES_EXHAUSTED),
    # KubeRay's false Failed: the driver's own word decides.
    (
        {"cause": Cause.UNKNOWN, "outcome": Outcome.FAILED, "driver_reason": "InternalError"},
        A,
        False,
        Reason.RETRIES_EXHAUSTED,
    ),
    ({"cause": Cause.UNKNOWN, "outcome": Outcome.STOPPED}, E, False, Reason.RETRIES_EXHAUSTED),
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
        driver_reason=st.sampled_from(["", *FailureReason, *Stop, "other"]),
        proof=st.sampled_from([None, *Proof]),
        message=st.sampled_from(["", "No module named 'trainjobs'", "boom"]),
        exit_code=st.sampled_from([None, 0, 1, 2, 3, 4, 5, 6, 137, -9, 99]),
    )
)
def test_every_combination_has_one_answer_that_can_be_acted_on(facts: EndFacts) -> None:
    verdict = classify(facts)
    assert next(r.verdict for r in RULES if r.test(facts)) == verdict
    assert classify(replace(facts)) == verdict
    if facts.stop == "" and facts.cause is Cause.UNKNOWN and facts.outcome is None and not facts.driver_reason:
        assert verdict.permanent, "what is not known is not retried by itself"
    if verdict.end_class is EndClass.SUCCESS:
        assert facts.outcome in (Outcome.COMPLETED, Outcome.GOAL_REACHED)
        assert facts.cause is not Cause.JOB_FAILED
        assert facts.cause is Cause.JOB_SUCCEEDED or facts.proof is Proof.PERSISTED
    if verdict.end_class in (EndClass.DEADLINE, EndClass.BUDGET, EndClass.UNKNOWN):
        assert verdict.permanent
    if not verdict.permanent:
        assert verdict.reason in (
            Reason.RETRIES_EXHAUSTED,
            Reason.COMPLETED,
            Reason.GOAL_REACHED,
            Reason.ADOPTED_FINISHED_RUN,
            Reason.SUSPENDED,
            Reason.STARTUP_DEADLINE_EXCEEDED,
            Reason.QUEUED_DEADLINE_EXCEEDED,
            Reason.STALL_DEADLINE_EXCEEDED,
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
    ("Failed", "FAILED", {"reason": "AppFailed", "message": "Ray head pod not found."}, "HeadLost"),
    (
        "Failed",
        "RUNNING",
        {"reason": "AppFailed", "message": "Submitter completed but Ray job not found in RayCluster."},
        "HeadLost",
    ),
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
    assert stage.attempt.reason == "HeadOutOfMemory"
    assert "cluster.head.resources.memory" in stage.attempt.message
    stage.settled()
    assert stage.attempt.end_class == "Application"


def test_spot_node_of_the_head_that_is_gone_is_infrastructure() -> None:
    stage = Stage().running()
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, head_ready=False, head_reason="ContainersNotReady")
    stage.pods = (head(phase="Failed", exit_reason="NodeLost"),)
    stage.decide(10)
    assert "NodeLost" in stage.attempt.message
    stage.settled()
    assert stage.attempt.end_class == "Infrastructure"


def test_a_worker_that_was_killed_for_memory_is_not_the_head() -> None:
    stage = Stage().running()
    assert isinstance(stage.cluster, ClusterView)
    stage.cluster = replace(stage.cluster, head_ready=False, head_reason="ContainersNotReady")
    stage.pods = (
        head(name="w", head=False, phase="Failed", exit_reason="OOMKilled"),
        head(phase="Failed", exit_reason="Error"),
    )
    stage.decide(10)
    assert (stage.attempt.reason, stage.attempt.message) == ("HeadLost", "The head pod was lost (Error).")


@pytest.mark.parametrize(("deployment", "flag"), [("Running", True), ("Suspending", False), ("Suspending", True)])
def test_cluster_that_kueue_takes_is_an_eviction_not_a_lost_head(deployment: str, flag: bool) -> None:
    stage = Stage().running().head_is_lost().job_is(deployment, "RUNNING", suspended=flag)
    stage.decide(10)
    assert stage.attempt.ended_at is None
    stage.job_is("Suspended", "", suspended=True)
    stage.settled()
    assert stage.attempt.end_class == "Eviction"


def test_exit_code_is_read_from_rays_own_words() -> None:
    words = "Job entrypoint command failed with exit code 137, last available logs (truncated to 20,000 chars):\n..."
    stage = Stage().running().job_is("Failed", "FAILED", reason="AppFailed", message=words)
    stage.settled()
    assert stage.attempt.end_class == "Application"
    words = words.replace("137", "3")
    stage = Stage().running().job_is("Failed", "FAILED", reason="AppFailed", message=words)
    stage.settled()
    assert stage.state == "False/PermanentFailure"


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


def test_pod_whose_node_came_late_is_given_its_minute_too() -> None:
    stage = Stage().launched()
    stage.decide(200)
    lost = head(phase="Pending", problem_layer="Image", problem_reason="InvalidImageName", problem_message="a b")
    stage.pods = (replace(lost, started_at=stage.now),)
    stage.decide(30)
    assert stage.attempt.ended_at is None
    stage.decide(40)
    assert stage.attempt.reason == "CannotStart"


def test_image_that_its_registry_does_not_have_is_given_ten_minutes() -> None:
    stage = Stage(spec=spec(deadlines={"startupSeconds": 7200})).launched()
    words = "container ray-head, image registry.example/train:1: manifest unknown"
    stage.pods = (head(phase="Pending", problem_layer="Image", problem_reason="ErrImagePull", problem_message=words),)
    stage.decide(590)
    assert stage.attempt.ended_at is None
    stage.decide(20)
    assert stage.attempt.reason == "CannotStart"
    stage.settled(required=0, verified=0)
    assert stage.state == "False/PermanentFailure"


def test_worker_without_an_image_ends_no_attempt_that_has_trained() -> None:
    stage = Stage().running().reporting()
    lost = head(
        name="w", uid="w", head=False, phase="Pending", problem_layer="Image", problem_reason="InvalidImageName"
    )
    stage.pods = (head(), lost)
    stage.decide(1)
    stage.reporting().decide(700)
    assert stage.attempt.ended_at is None


def test_vanished_ray_job_is_an_eviction() -> None:
    stage = Stage().running()
    stage.job, stage.pods = None, ()
    stage.settled()
    assert stage.attempt.end_class == "Eviction"
    assert stage.status.retries.eviction.used == 1


@pytest.mark.parametrize(("code", "killed"), [(137, True), (-9, True), (9, False), (-8, False), (1, False)])
def test_a_driver_that_was_killed_for_memory_is_told_so(code: int, killed: bool) -> None:
    facts = EndFacts(cause=Cause.JOB_FAILED, exit_code=code)
    text = next(rule.text for rule in RULES if rule.test(facts))
    assert ("memory" in text) == killed
