"""Lives of a sweep that are told pass by pass, two attempts where it matters; each is compared with its file in stories/."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.unit.core.core_builders import NOW, control_of, head, klass, only, spec
from tests.unit.core.told import Told
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.status import ConditionStatus
from trainsweep.contract.documents import ADOPTED, FailureReason, Outcome, Phase
from trainsweep.contract.labels import FORCE_RELEASE, RETRY_NOW
from trainsweep.core import model
from trainsweep.core.model import (
    ClusterView,
    ExportLook,
    ExportState,
    HoldView,
    InLine,
    Observed,
    PodView,
    Proof,
    RayJobView,
    Unreadable,
)
from trainsweep.core.times import to_text

STORIES: dict[str, Callable[[], Told]] = {}
GPU = {"cpu": 1, "memory": "1Gi", "nvidia.com/gpu": 1}


def story(tell: Callable[[], Told]) -> Callable[[], Told]:
    """Puts it into the list."""
    STORIES[tell.__name__] = tell
    return tell


def told(**changes: Any) -> Told:
    """A sweep that is applied."""
    return Told(spec=spec(**changes))


def _obey(stage: Told) -> None:
    """The control document arrives on the head pod."""
    plan = stage.decide(5)
    if only(plan, model.PatchControl):
        stage.pods = (head(control=control_of(plan)),)


def _second(stage: Told | None = None) -> Told:
    """A second attempt that runs: the first one lost its head."""
    stage = stage or told()
    stage.running().reporting().decide(20)
    stage.head_is_lost()
    stage.settled()
    stage.torn_down()
    stage.now += 40
    if not stage.whole:
        stage.lines.clear()
    stage.title("the second attempt").running().reporting().decide(5)
    return stage


def _completed(stage: Told) -> Told:
    """The receipt is proven, the driver told, and the job succeeds."""
    stage.title("the driver waits with its receipt").waiting().decide(5)
    stage.settling = True
    stage.decide(5)
    stage.settling = False
    stage.looked()
    _obey(stage)
    stage.title("the job succeeds").job_is("Complete", "SUCCEEDED").ended(
        "Complete", "SUCCEEDED", outcome=Outcome.COMPLETED
    )
    stage.decide(5)
    return stage


# ---------------------------------------------------------------------------------------------------- well


@story
def completes() -> Told:
    stage = told()
    stage.whole = True
    stage.title("applied").running()
    stage.title("it reports").reporting(last_step_at=stage.now).decide(5)
    stage.decide(60)
    _completed(stage)
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
    stage = _completed(_second(stage))
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
    _completed(stage)
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
    _obey(stage)
    stage.ended("Complete", "SUCCEEDED", outcome=Outcome.COMPLETED, reason=ADOPTED)
    stage.decide(5)
    return stage


@story
def owes_nothing() -> Told:
    stage = told(checkpoints={"require": "None"})
    stage.running().waiting().looked(required=0, verified=0, files=0, bytes=0)
    _obey(stage)
    stage.job_is("Complete", "SUCCEEDED").decide(5)
    return stage


# ---------------------------------------------------------------------------------------------------- proofs


@story
def lost_checkpoints_are_mended() -> Told:
    stage = _second().waiting()
    stage.title("missing").looked(Proof.MISSING, advice="versioning is off")
    _obey(stage)
    stage.title("a new receipt").waiting("e" * 64).decide(5)
    stage.looked(Proof.PERSISTED, "e" * 64)
    _obey(stage)
    return stage


@story
def lost_checkpoints_stay_lost() -> Told:
    stage = told()
    stage.running().waiting().looked(Proof.MISSING)
    _obey(stage)
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
    stage = _second()
    stage.job_is("Failed", "FAILED").end = Unreadable("503")
    stage.settled()
    stage.decide(5)
    stage.end = None
    stage.decide(5)
    return stage


# ---------------------------------------------------------------------------------------------------- ends


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
    stage = _second().ended(
        outcome=Outcome.FAILED, reason=FailureReason.BAD_ENTRYPOINT, message="no module named train"
    )
    assert isinstance(stage, Told)
    stage.settled()
    stage.torn_down()
    return stage


@story
def too_many_trials_failed() -> Told:
    stage = told()
    stage.running().waiting().looked(outcome=Outcome.MAX_FAILED_TRIALS)
    _obey(stage)
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
    stage = _second()
    stage.job, stage.cluster, stage.pods = None, None, ()
    stage.decide(5)
    stage.settled()
    return stage


@story
def its_cluster_is_left_behind() -> Told:
    stage = _second().orphaned()
    assert isinstance(stage, Told)
    _obey(stage)
    stage.decide(5)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    _obey(stage)
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


# ---------------------------------------------------------------------------------------------------- limits


def _limited(**deadlines: Any) -> Told:
    return told(deadlines={"startupSeconds": 50, **deadlines})


@story
def runs_out_of_time_and_obeys() -> Told:
    stage = _limited(runSeconds=100, totalSeconds=5000)
    stage.running().reporting().decide(5)
    stage.title("before the operator's margin").now = NOW + 110
    stage.reporting().decide()
    stage.title("after it").now = NOW + 121
    stage.reporting()
    _obey(stage)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    _obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="RunDeadlineExceeded")
    stage.decide(5)
    return stage


@story
def runs_out_of_time_and_does_not_obey() -> Told:
    stage = _second(_limited(totalSeconds=500))
    stage.now = NOW + 515
    stage.reporting()
    _obey(stage)
    stage.decide(169)
    stage.decide(1)
    stage.settled()
    return stage


@story
def nothing_reports_before_the_startup_deadline() -> Told:
    stage = told(deadlines={"startupSeconds": 100})
    stage.launched()
    stage.decide(99)
    stage.decide(1)
    stage.settled()
    return stage


@story
def no_node_comes_before_the_queued_deadline() -> Told:
    stage = told(deadlines={"startupSeconds": 100, "queuedSeconds": 60})
    stage.launched()
    stage.pods = (head(phase="Pending", ready=False, problem_layer="Placement", problem_message="no node"),)
    stage.decide(59)
    stage.decide(1)
    return stage


@story
def no_trial_reports_any_more() -> Told:
    stage = _limited(stallSeconds=60)
    stage.running().reporting(last_step_at=stage.now).decide(5)
    stage.progress = stage.progress and replace_step(stage, stage.now - 5)
    stage.decide(60)
    stage.decide(70)
    return stage


def replace_step(stage: Told, at: float) -> Any:
    """The heartbeat of now, with a last step of then."""
    assert not isinstance(stage.progress, Unreadable | None)
    return stage.progress.model_copy(update={"heartbeat_at": at, "last_step_at": at})


@story
def a_deadline_is_raised_then_removed() -> Told:
    stage = _limited(runSeconds=100)
    stage.running().reporting().decide(5)
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, active_deadline_seconds=530)
    stage.title("raised").spec = spec(deadlines={"startupSeconds": 50, "runSeconds": 2000})
    stage.generation = 2
    _obey(stage)
    stage.job = replace(stage.job, active_deadline_seconds=2430)
    stage.decide(5)
    stage.title("removed").spec = spec()
    stage.generation = 3
    _obey(stage)
    return stage


@story
def comes_after_its_date() -> Told:
    stage = told(deadlines={"startupSeconds": 1000, "notAfter": to_text(NOW - 10)})
    stage.decide()
    stage.decide(60)
    return stage


@story
def its_budget_is_used_up() -> Told:
    stage = told(budget={"cpuHours": 0.1})
    stage.running().pods = (head(cpus=4, started_at=NOW),)
    stage.reporting().decide(30)
    stage.title("a second before 360 CPU-seconds").now = NOW + 89
    stage.decide()
    stage.now = NOW + 85
    _obey(stage)
    return stage


# ---------------------------------------------------------------------------------------------------- people


@story
def is_suspended_and_resumed() -> Told:
    stage = _second()
    stage.title("suspended").spec = spec(suspend=True)
    stage.generation = 2
    _obey(stage)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    _obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="Suspended")
    stage.decide(5)
    stage.torn_down()
    stage.decide(5)
    stage.title("resumed").spec = spec()
    stage.generation = 3
    stage.now += 100
    stage.running().reporting().decide(60)
    return stage


@story
def is_created_suspended() -> Told:
    stage = told(suspend=True)
    stage.decide()
    stage.hold = HoldView("h", "u")
    stage.decide(5)
    return stage


@story
def is_deleted_while_it_runs() -> Told:
    stage = _second()
    stage.title("deleted").deleted_at = stage.now
    _obey(stage)
    stage.waiting().looked(outcome=Outcome.STOPPED)
    _obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="Deleted")
    stage.decide(5)
    stage.torn_down()
    stage.decide(3)
    return stage


@story
def is_deleted_and_does_not_stop() -> Told:
    stage = told()
    stage.running().reporting().decide(5)
    stage.deleted_at = stage.now
    _obey(stage)
    stage.decide(180)
    stage.decide(114)
    stage.title("the grace is over").decide(1)
    stage.torn_down()
    return stage


@story
def is_released_by_force() -> Told:
    stage = _second()
    stage.deleted_at, stage.annotations = stage.now, {FORCE_RELEASE: "true"}
    stage.decide(5)
    stage.torn_down()
    return stage


@story
def is_deleted_when_its_spec_cannot_be_read() -> Told:
    stage = told()
    stage.running().reporting().decide(5)
    stage.spec, stage.deleted_at = {"trials": 3}, stage.now
    stage.decide(5)
    stage.decide(594)
    stage.decide(1)
    return stage


@story
def the_next_attempt_is_asked_for() -> Told:
    stage = told()
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    stage.torn_down()
    for ahead in (-1000, 120, 30):
        stage.title(f"asked {ahead} s from now").annotations = {RETRY_NOW: to_text(stage.now + ahead)}
        stage.decide()
    return stage


@story
def somebody_elses_ray_job_has_the_name() -> Told:
    stage = told()
    stage.launched()
    assert isinstance(stage.job, RayJobView)
    stage.job = replace(stage.job, sweep_uid="other")
    stage.decide(5)
    stage.decide(60)
    stage.job = None
    stage.title("it is gone").decide(60)
    return stage


@story
def its_ray_job_is_refused() -> Told:
    stage = told()
    stage.decide()
    stage.refusal = "exceeded quota"
    stage.decide(5)
    stage.decide(5)
    stage.decide(989)
    stage.title("the startup deadline").decide(1)
    stage.settled()
    return stage


@story
def its_hold_is_deleted() -> Told:
    stage = _second()
    stage.hold = None
    stage.decide(5)
    return stage


# ---------------------------------------------------------------------------------------------------- classes


@story
def its_class_is_missing() -> Told:
    stage = told()
    stage.sweep_class, stage.class_error = None, "TrainSweepClass gpu does not exist"
    stage.decide()
    stage.sweep_class, stage.class_error = klass(), ""
    stage.title("it is there").decide(60)
    return stage


@story
def its_spec_becomes_unreadable_while_it_runs() -> Told:
    stage = told()
    stage.running().reporting().decide(5)
    stage.spec = {"trials": 3}
    stage.decide(5)
    stage.spec = spec()
    stage.decide(60)
    stage.job_is("Complete", "SUCCEEDED").spec = {"trials": 3}
    stage.decide(5)
    return stage


@story
def stands_in_line() -> Told:
    def other(name: str, ticket: int, gpus: int, **more: Any) -> InLine:
        fields: dict[str, Any] = {"waits": False, "holds": False, "undecided": False}
        return InLine(name, name.split("/", 1)[0], f"uid-{name}", ticket, gpus, **(fields | more))

    stage = told(training={"workers": {"count": 1, "resources": GPU}})
    stage.sweep_class = klass(limits={"gpus": 2})
    many = tuple(other(f"team-{i}/x", 10 + i, 1, waits=True) for i in range(5))
    stage.title("others hold and wait").line = (other("team-a/x", 3, 2, holds=True), *many)
    stage.decide()
    stage.decide(1)
    stage.title("exactly three are before it").line = many[:3]
    stage.decide(1)
    stage.title("one is undecided").line = (other("team-a/y", 4, 1, undecided=True),)
    stage.decide(15)
    stage.title("nobody is before it").line = ()
    stage.decide(1)
    return stage


@story
def the_namespace_has_spent_its_gpu_hours() -> Told:
    stage = told(training={"workers": {"count": 1, "resources": GPU}})
    stage.sweep_class = klass(limits={"gpuHours": 10, "gpus": 8})
    stage.line = (InLine("team/x", "team", "uid-x", 1, 1, False, True, False, gpu_seconds=36_000.0),)
    stage.decide()
    stage.decide(1)
    return stage


@story
def its_operator_has_failed_inside() -> Told:
    """Who was stalled by the operator's own fault stands in no line, and draws anew."""
    stage = told(training={"workers": {"count": 1, "resources": GPU}})
    stage.sweep_class = klass(limits={"gpus": 1})
    stage.line = (InLine("team-a/x", "team-a", "uid-x", 3, 1, False, True, False),)
    stage.decide()
    stage.line = (*stage.line, InLine("team-a/y", "team-a", "uid-y", 8, 1, True, False, False))
    held = [c for c in stage.status.conditions if c.type != "Reconciling"]
    ours = ConditionStatus(
        type=Condition.STALLED,
        status="True",
        observed_generation=1,
        last_transition_time=to_text(NOW),
        reason=Reason.INTERNAL_ERROR,
        message="KeyError",
    )
    stage.status = stage.status.model_copy(update={"conditions": [*held, ours]})
    stage.decide(60)
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
def no_time_is_left_for_a_further_attempt() -> Told:
    stage = told(deadlines={"startupSeconds": 50, "totalSeconds": 60})
    stage.running().reporting().decide(40)
    stage.ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    return stage


@story
def is_warned_of_what_is_not_proven() -> Told:
    stage = told(checkpoints={"verify": {"timeoutSeconds": 100, "onMissing": "Warn"}})
    stage.running().ended("Complete", "SUCCEEDED")
    stage.settled(Proof.MISSING, "d" * 64)
    return stage


@story
def is_stopped_after_its_receipt() -> Told:
    """What was missing could not be mended any more: the stop is what counts, not the receipt's word."""
    stage = _limited(runSeconds=100)
    stage.running().reporting().decide(5)
    stage.now = NOW + 121
    stage.waiting().looked(Proof.MISSING)
    _obey(stage)
    stage.ended(outcome=Outcome.STOPPED, reason="RunDeadlineExceeded")
    stage.settled(Proof.MISSING, "d" * 64)
    return stage


@story
def fails_with_a_receipt() -> Told:
    """The receipt's word counts where the driver's last one is another."""
    stage = told()
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled(Proof.PERSISTED, "d" * 64)
    return stage


@story
def its_class_is_deleted_while_it_starts() -> Told:
    stage = told()
    stage.decide()
    stage.sweep_class, stage.class_error = None, "TrainSweepClass default does not exist"
    stage.decide(5)
    stage.decide(5)
    return stage


@story
def fails_too_many_trials_without_a_receipt() -> Told:
    """No receipt has a word: the driver's last one counts."""
    stage = told()
    stage.running().ended(outcome=Outcome.MAX_FAILED_TRIALS)
    stage.settled(Proof.PERSISTED)
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


@story
def its_rendering_is_refused() -> Told:
    stage = told(training={"workers": {"count": 1, "resources": {"memory": "1Gi", "cpu": None}}})
    stage.decide()
    stage.decide(60)
    return stage


def _between_attempts(**changes: Any) -> Told:
    """An attempt has failed at +10 and is gone; the next one follows at +21."""
    stage = told(**changes)
    stage.running().ended(outcome=Outcome.FAILED, reason=FailureReason.INTERNAL)
    stage.settled()
    stage.torn_down()
    stage.lines.clear()
    return stage


@story
def the_next_attempt_comes_to_the_second() -> Told:
    stage = _between_attempts()
    stage.now = NOW + 20
    stage.decide()
    stage.decide(1)
    return stage


@story
def the_next_attempt_is_asked_for_to_the_second() -> Told:
    stage = _between_attempts()
    for ahead in (61, 60):
        stage.title(f"asked {ahead} s from now").annotations = {RETRY_NOW: to_text(stage.now + ahead)}
        stage.decide()
    return stage


@story
def its_date_comes_between_two_attempts() -> Told:
    stage = _between_attempts(deadlines={"startupSeconds": 1000, "notAfter": to_text(NOW + 100)})
    stage.spec = spec(deadlines={"startupSeconds": 1000, "notAfter": to_text(NOW + 20)})
    stage.now = NOW + 19
    stage.decide()
    stage.decide(1)
    return stage


@story
def its_total_comes_between_two_attempts() -> Told:
    stage = _between_attempts(deadlines={"startupSeconds": 10, "totalSeconds": 100})
    stage.spec = spec(deadlines={"startupSeconds": 10, "totalSeconds": 20})
    stage.now = NOW + 19
    stage.decide()
    stage.decide(1)
    return stage


@story
def its_second_attempt_finds_no_image() -> Told:
    stage = _second(told(failurePolicy={"attempts": {"infrastructure": 3, "startup": 3}}))
    stage.head_is_lost()
    stage.settled()
    stage.torn_down()
    stage.now += 100
    stage.title("the third attempt").launched()
    stage.pods = (
        head(
            phase="Pending",
            ready=False,
            problem_layer="Image",
            problem_reason="ErrImagePull",
            problem_message="manifest unknown",
            started_at=stage.now,
        ),
        head(name="w", head=False, phase="Pending", problem_layer="Container", problem_message="file not found"),
    )
    stage.decide(600)
    stage.decide(1)
    return stage


@story
def its_second_driver_ends_well_and_leaves_no_word() -> Told:
    stage = _second()
    stage.job_is("Complete", "SUCCEEDED").end = Unreadable("503")
    stage.settled(Proof.PERSISTED, "d" * 64)
    return stage


@story
def its_second_driver_is_stopped_and_left_behind() -> Told:
    stage = _second().orphaned()
    assert isinstance(stage, Told)
    stage.decide(5)
    stage.reporting()
    stage.decide(100)
    stage.reporting()
    stage.decide(65)
    stage.decide(5)
    return stage
