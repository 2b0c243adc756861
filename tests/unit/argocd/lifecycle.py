"""Every state of a sweep's life as a full object, made by decide() itself, and what GitOps tools must make of it.

The objects lie in `manifests/argocd/trainsweep.io/TrainSweep/testdata`, in the layout that Argo CD's own tests read.
`python -m tests.unit.argocd.lifecycle` writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import yaml

from tests.unit.argocd.tools import FOLDER, argo_health, discover
from tests.unit.core.core_builders import NOW, UID, Stage, missing, pod_body, spec
from trainsweep.api import API_VERSION
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.core.model import Proof, RayJobView
from trainsweep.core.pending.situation import Situation
from trainsweep.core.times import to_text

FINISHED = ("Finished",)
DONE = ("Finished", "Ready", "Succeeded")


@dataclass(frozen=True)
class State:
    """A state: how it comes about, and what is said of it.

    Attributes:
        make: brings a stage there.
        health: status that Argo CD shows.
        kstatus: what kstatus computes (Flux, `helm --wait`, kpt).
        waits: conditions for which `kubectl wait --for=condition=...` returns.
        message: begins or is part of Argo CD's message.
    """

    make: Callable[[], Stage]
    health: str
    kstatus: str
    waits: tuple[str, ...]
    message: str


def _refused() -> Stage:
    stage = Stage(
        sweep_class=None, class_error="TrainSweepClass gpu-a10g does not exist: create it, or change className."
    )
    stage.decide()
    return stage


def _invalid() -> Stage:
    stage = Stage(spec=spec(storage={"uri": "s3://another/team"}))
    stage.decide()
    return stage


def _changed() -> Stage:
    """The spec was changed a moment ago."""
    stage = Stage().running()
    stage.generation = 2
    return stage


def _starting() -> Stage:
    stage = Stage().launched()
    stage.decide(1)
    return stage


def _queued() -> Stage:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, deployment_status="Suspended", suspended=True)
    stage.decide(3)
    return stage


def _unschedulable() -> Stage:
    stage = Stage().launched()
    words = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    stage.situation = Situation(stage.now, pods=(pod_body("head", head=True, unscheduled=words),))
    stage.decide(40)
    return stage


def _running() -> Stage:
    stage = Stage().reporting()
    stage.decide(60)
    return stage


def _verifying() -> Stage:
    stage = Stage().running().waiting()
    stage.decide(31)
    return stage


def _mending() -> Stage:
    stage = Stage().running().waiting().looked(Proof.MISSING)
    stage.decide(31)
    return stage


def _stopping() -> Stage:
    stage = Stage(spec=spec(deadlines={"runSeconds": 3600})).reporting()
    stage.decide(10)
    stage.reporting()
    stage.decide(3600)
    return stage


def _settling() -> Stage:
    stage = Stage().reporting()
    stage.decide(60)
    stage.head_is_lost().decide(10)
    return stage


def _retrying() -> Stage:
    stage = Stage().ended("Failed", "FAILED", reason=FailureReason.STORAGE_UNAVAILABLE, message="S3 said 503")
    stage.settled()
    return stage.torn_down()


def _deleting() -> Stage:
    stage = Stage().reporting()
    stage.decide(60)
    stage.deleted_at = stage.now
    stage.decide(1)
    return stage


def _flagged(stage: Stage) -> Stage:
    """Somebody sets spec.suspend."""
    stage.spec = {**stage.spec, "suspend": True}
    stage.generation += 1
    return stage


def _suspending() -> Stage:
    stage = _flagged(Stage().running().reporting())
    stage.decide(5)
    return stage


def _created_suspended() -> Stage:
    stage = Stage(spec=spec(suspend=True))
    stage.decide()
    return stage


def _completed(**checkpoints: Any) -> Stage:
    stage = Stage(spec=spec(checkpoints=checkpoints)).running().waiting()
    stage.looked().decide(5)
    stage.job_is("Complete", "SUCCEEDED").decide(5)
    return stage


def _released() -> Stage:
    return _completed().torn_down()


def _goal_reached() -> Stage:
    stage = Stage().running().waiting().looked(outcome=Outcome.GOAL_REACHED)
    stage.decide(5)
    stage.job_is("Complete", "SUCCEEDED").decide(5)
    return stage


def _ended_with(proof: Proof, on_missing: str) -> Stage:
    stage = (
        Stage(spec=spec(checkpoints={"verify": {"timeoutSeconds": 100, "onMissing": on_missing}})).running().waiting()
    )
    stage.looked(proof).decide(5)
    stage.job_is("Complete", "SUCCEEDED")
    for _ in range(40):
        stage.now += 20
        stage.looked(proof, missing=(missing(),) if proof is Proof.MISSING else ())
        stage.decide()
        if stage.status.finished_at:
            break
    return stage


def _failed(reason: FailureReason | str, message: str, **attempts: int) -> Stage:
    stage = Stage(spec=spec(failurePolicy={"attempts": attempts})).ended(
        "Failed", "FAILED", reason=reason, message=message
    )
    stage.settled()
    return stage


def _max_failed() -> Stage:
    stage = Stage().ended("Failed", "FAILED", outcome=Outcome.MAX_FAILED_TRIALS, message="6 of at most 5 trials failed")
    stage.settled()
    return stage


def _deadline() -> Stage:
    stage = _stopping().job_is("Complete", "STOPPED")
    stage.settled(outcome=Outcome.DEADLINE_EXCEEDED)
    return stage


def _suspended() -> Stage:
    stage = Stage().reporting()
    stage.decide(60)
    stage.spec, stage.generation = {**stage.spec, "suspend": True}, 2
    stage.decide(5)
    stage.ended(outcome=Outcome.STOPPED, reason="Suspended", message="stopped: Suspended")
    stage.settled(outcome=Outcome.STOPPED)
    stage.torn_down().decide(3)
    return stage


def _never_started(**deadlines: int) -> Stage:
    attempts = {"attempts": {"startup": 0}}
    stage = Stage(spec=spec(deadlines=deadlines, failurePolicy=attempts)).launched()
    stage.decide(601)
    stage.settled(required=0, verified=0)
    return stage


def _stalled() -> Stage:
    attempts = {"attempts": {"application": 0}}
    stage = Stage(spec=spec(deadlines={"stallSeconds": 600}, failurePolicy=attempts)).reporting()
    stage.ended(outcome=Outcome.STOPPED, reason="StallDeadlineExceeded", message="stopped: StallDeadlineExceeded")
    stage.settled(outcome=Outcome.STOPPED)
    return stage


def _budget() -> Stage:
    stage = Stage(spec=spec(budget={"cpuHours": 1})).reporting()
    stage.ended(outcome=Outcome.BUDGET_EXCEEDED, message="stopped: BudgetExceeded")
    stage.settled(outcome=Outcome.BUDGET_EXCEEDED)
    return stage


def _conflict() -> Stage:
    stage = Stage().launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, sweep_uid="somebody-else")
    stage.decide(3)
    return stage


STATES: dict[str, State] = {
    "created": State(Stage, "Progressing", "InProgress", (), "Waiting for the operator"),
    "changed": State(_changed, "Progressing", "InProgress", (), "Waiting for the operator"),
    "class-not-found": State(_refused, "Degraded", "Failed", (), "ClassNotFound: TrainSweepClass gpu-a10g"),
    "storage-not-allowed": State(_invalid, "Degraded", "Failed", (), "StorageNotAllowed: spec.storage.uri"),
    "starting": State(_starting, "Progressing", "InProgress", (), "Starting"),
    "queued": State(_queued, "Progressing", "InProgress", (), "Starting"),
    "unschedulable": State(
        _unschedulable, "Progressing", "InProgress", (), "Waiting (Placement, InsufficientResources): head head"
    ),
    "running": State(_running, "Progressing", "InProgress", (), "Running"),
    "verifying": State(_verifying, "Progressing", "InProgress", (), "Verifying"),
    "mending": State(_mending, "Progressing", "InProgress", (), "Verifying"),
    "stopping": State(_stopping, "Progressing", "InProgress", (), "Stopping"),
    "settling": State(_settling, "Progressing", "InProgress", (), "Settling"),
    "retrying": State(_retrying, "Progressing", "InProgress", (), "Retrying: Attempt 1 ended"),
    "suspending": State(_suspending, "Progressing", "InProgress", (), "Stopping: "),
    "created-suspended": State(_created_suspended, "Suspended", "InProgress", (), "Suspended: "),
    "deleting": State(_deleting, "Progressing", "Terminating", (), ""),
    "completed": State(_completed, "Healthy", "Current", DONE, "Completed: best 0.5 by t0"),
    "released": State(_released, "Healthy", "Current", DONE, "Completed: best 0.5 by t0"),
    "goal-reached": State(_goal_reached, "Healthy", "Current", DONE, "GoalReached"),
    "completed-unverified": State(
        lambda: _ended_with(Proof.MISSING, "Warn"), "Healthy", "Current", DONE, "CompletedUnverified"
    ),
    "checkpoints-missing": State(
        lambda: _ended_with(Proof.MISSING, "Fail"), "Degraded", "Failed", FINISHED, "CheckpointsMissing"
    ),
    "verification-timed-out": State(
        lambda: _ended_with(Proof.UNKNOWN, "Fail"), "Degraded", "Failed", FINISHED, "VerificationTimedOut"
    ),
    "retries-exhausted": State(
        lambda: _failed("", "CUDA out of memory", application=0),
        "Degraded",
        "Failed",
        FINISHED,
        "RetriesExhausted: CUDA",
    ),
    "permanent-failure": State(
        lambda: _failed(FailureReason.BAD_ENTRYPOINT, "no module train"),
        "Degraded",
        "Failed",
        FINISHED,
        "PermanentFailure",
    ),
    "max-failed-trials": State(_max_failed, "Degraded", "Failed", FINISHED, "MaxFailedTrials"),
    "deadline-exceeded": State(_deadline, "Degraded", "Failed", FINISHED, "DeadlineExceeded"),
    "suspended": State(_suspended, "Suspended", "InProgress", (), "spec.suspend is true"),
    "queued-too-long": State(
        lambda: _never_started(queuedSeconds=600), "Degraded", "Failed", FINISHED, "QueuedDeadlineExceeded"
    ),
    "not-started": State(
        lambda: _never_started(startupSeconds=600), "Degraded", "Failed", FINISHED, "StartupDeadlineExceeded"
    ),
    "stalled": State(_stalled, "Degraded", "Failed", FINISHED, "StallDeadlineExceeded"),
    "budget-exceeded": State(_budget, "Degraded", "Failed", FINISHED, "BudgetExceeded"),
    "name-conflict": State(_conflict, "Degraded", "Failed", (), "NameConflict"),
}


def body(stage: Stage) -> dict[str, Any]:
    """The object as the API server shows it."""
    metadata: dict[str, Any] = {
        "name": "digits",
        "namespace": "team",
        "uid": UID,
        "generation": stage.generation,
        "resourceVersion": "1",
        "creationTimestamp": to_text(NOW - 5),
    }
    if stage.annotations:
        metadata["annotations"] = dict(stage.annotations)
    if stage.finalizers:
        metadata["finalizers"] = list(stage.finalizers)
    if stage.deleted_at is not None:
        metadata |= {"deletionTimestamp": to_text(stage.deleted_at), "deletionGracePeriodSeconds": 0}
    status = stage.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    if status.get("observedGeneration") == -1:
        status = {"observedGeneration": -1}  # the CRD's default, before the operator has written anything
    return {"apiVersion": API_VERSION, "kind": "TrainSweep", "metadata": metadata, "spec": stage.spec, "status": status}


def objects() -> dict[str, dict[str, Any]]:
    """Every state's object, by its name."""
    return {name: body(state.make()) for name, state in STATES.items()}


def text(item: dict[str, Any]) -> str:
    """An object as its file."""
    return yaml.safe_dump(item, sort_keys=False, width=120)


def write() -> None:
    """Writes the files of all states, and the tests in Argo CD's own form."""
    for name, item in objects().items():
        (FOLDER / "testdata" / f"{name}.yaml").write_text(text(item), encoding="utf-8")
    cases = []
    for name, item in objects().items():
        if "deletionTimestamp" not in item["metadata"]:
            cases.append({"healthStatus": argo_health(item), "inputPath": f"testdata/{name}.yaml"})
    (FOLDER / "health_test.yaml").write_text(text({"tests": cases}), encoding="utf-8")
    running = body(_running())
    suspended = running | {"spec": running["spec"] | {"suspend": True}}
    found = {"running": running, "suspended": suspended, "retrying": body(_retrying()), "completed": body(_completed())}
    discovery = []
    for name, item in found.items():
        (FOLDER / "actions/testdata" / f"{name}.yaml").write_text(text(item), encoding="utf-8")
        offered = [{"name": key, **about} for key, about in sorted(discover(item).items())]
        discovery.append({"inputPath": f"testdata/{name}.yaml", "result": offered})
    tests = {
        "discoveryTests": discovery,
        "actionTests": [
            {
                "action": "suspend",
                "inputPath": "testdata/running.yaml",
                "expectedOutputPath": "testdata/suspended.yaml",
            },
            {"action": "resume", "inputPath": "testdata/suspended.yaml", "expectedOutputPath": "testdata/running.yaml"},
        ],
    }
    (FOLDER / "actions/action_test.yaml").write_text(text(tests), encoding="utf-8")


if __name__ == "__main__":
    write()
