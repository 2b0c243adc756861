"""A live attempt: conditions from the cluster, progress, the verdict to a waiting driver, stops, and the sight of its end."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import Control, Phase, Progress, StopRequest, Verdict
from trainsweep.contract.layout import attempt_id
from trainsweep.core import deadlines
from trainsweep.core.draft import Draft, find_condition
from trainsweep.core.ends import Cause, Stop
from trainsweep.core.launch import class_total_limit, refresh_deadlines, relaunch_same
from trainsweep.core.model import (
    ClusterView,
    PatchControl,
    PatchRayJob,
    PodView,
    Proof,
    RayJobView,
    RepairHoldReference,
    Settle,
    Unreadable,
)
from trainsweep.core.pending import find_pending, never_starts, record_pending
from trainsweep.core.progress import record_progress
from trainsweep.core.times import to_seconds, to_text
from trainsweep.core.verification import RELOOK_SECONDS, record_settlement, verdict_of
from trainsweep.render.rayjob import hold_name

POLL_SECONDS = 5.0
NEVER_STARTS_AFTER = 60.0
"""Seconds that a pod whose image can never be had is given, in case an image is being loaded right now."""
OBEY_MARGIN = 60.0
"""Seconds after grace and verdict time-out in which a stopped driver must have ended."""


def watch(draft: Draft, spec: TrainSweepSpec) -> None:
    """One pass over a live attempt (`ended_at` is not set)."""
    seen = draft.observed.ray_job
    attempt = draft.status.attempts[-1]
    draft.wake(draft.now + POLL_SECONDS)
    if isinstance(seen, Unreadable):
        return
    if seen is None:
        if not attempt.ray_job_uid:
            relaunch_same(draft, spec)
        else:
            end(draft, Cause.RAY_JOB_DELETED, f"RayJob {attempt.ray_job} was deleted by someone else.")
        return
    if seen.sweep_uid != draft.observed.sweep.uid or (attempt.spec_digest and seen.digest != attempt.spec_digest):
        message = (
            f"A RayJob {attempt.ray_job} exists that this sweep did not make: delete it, or create the sweep under another name."
        )
        draft.condition(Condition.ADMITTED, False, Reason.NAME_CONFLICT, message)
        draft.stalled(Reason.NAME_CONFLICT, message)
        draft.wake_at = draft.now + 60
        return
    if attempt.ray_job_uid != seen.uid:
        draft.set_attempt(ray_job_uid=seen.uid)
    _keep_hold(draft, seen)
    cluster = draft.observed.cluster if isinstance(draft.observed.cluster, ClusterView) else None
    pods = draft.observed.pods if isinstance(draft.observed.pods, tuple) else ()
    progress = draft.observed.store.progress
    if isinstance(progress, Progress) and progress.attempt_id == attempt_id(attempt.number, draft.observed.sweep.uid):
        record_progress(draft, progress)
    else:
        progress = None
    cause = _end_seen(draft, seen, cluster, pods)
    if cause is not None:
        end(draft, *cause)
        return
    _conditions(draft, seen, cluster, pods, progress)
    verdict = _second_look(draft, progress)
    refresh_deadlines(draft, spec)
    _deadlines(draft, spec, pods)
    if draft.status.attempts[-1].ended_at is not None:
        return
    _control(draft, spec, pods, verdict)
    _raise_backstop(draft, spec, seen)


def end(draft: Draft, cause: Cause, message: str) -> None:
    """Latches what was seen to end the attempt; settlement comes next."""
    draft.set_attempt(ended_at=to_text(draft.now), reason=cause, message=message[:2048])
    draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_GONE if cause is not Cause.HEAD_LOST else Reason.HEAD_LOST, message)
    record_pending(draft, None)
    draft.wake_at = draft.now


def ask_to_stop(draft: Draft, stop: Stop) -> None:
    """Books the stop; the control annotation carries it to the driver in the same pass."""
    if not draft.status.attempts[-1].stop_reason:
        draft.set_attempt(stop_reason=stop, stop_at=to_text(draft.now))
        draft.event(Reason.STOPPING, f"Asking the driver to stop: {stop}.", "Normal" if stop is Stop.DELETED else "Warning")


def head_pod(pods: tuple[PodView, ...]) -> PodView | None:
    """The attempt's live head pod."""
    return next((p for p in pods if p.head and not p.deleting and p.phase in ("Pending", "Running")), None)


def _keep_hold(draft: Draft, seen: RayJobView) -> None:
    hold = draft.observed.hold
    if isinstance(hold, Unreadable) or seen.deleting:
        return
    if hold is None or not seen.has_hold_owner:
        draft.after.append(RepairHoldReference(seen.name, hold_name(seen.name), draft.status.attempt))


def _end_seen(
    draft: Draft, job: RayJobView, cluster: ClusterView | None, pods: tuple[PodView, ...]
) -> tuple[Cause, str] | None:
    """What ended the attempt, if something did. A job status that is none of Ray's own words proves nothing."""
    said = job.message or job.reason
    match job.deployment_status:
        case "Complete":
            if job.job_status == "STOPPED":
                return Cause.JOB_STOPPED, said or "The Ray job was stopped from outside."
            return Cause.JOB_SUCCEEDED, said
        case "Failed":
            if job.reason == "AppFailed" or job.job_status == "FAILED":
                return Cause.JOB_FAILED, said
            if job.reason == "DeadlineExceeded":
                return Cause.BACKSTOP, said
            if job.reason == "PreRunningDeadlineExceeded":
                return Cause.STARTUP_DEADLINE, said
            return Cause.UNKNOWN, said
        case "ValidationFailed":
            return Cause.REFUSED, said or "KubeRay says ValidationFailed."
        case "Suspended":
            return Cause.SUSPENDED, "The RayJob was suspended: its cluster is gone."
        case _:
            pass
    if draft.status.attempts[-1].ready_at and cluster is not None and cluster.head_ready is False and not head_pod(pods):
        if cluster.head_reason == "HeadPodNotFound" or any(p.head and p.phase in ("Failed", "Succeeded") for p in pods):
            gone = next((p for p in pods if p.head and p.exit_reason), None)
            return Cause.HEAD_LOST, f"The head pod was lost ({gone.exit_reason if gone else cluster.head_reason})."
    lost = never_starts(pods)
    started = to_seconds(draft.status.attempts[-1].started_at) or draft.now
    if lost is not None and draft.now - started > NEVER_STARTS_AFTER:
        return Cause.CANNOT_START, f"{lost.problem_reason}: {lost.problem_message}"
    return None


def _conditions(
    draft: Draft, job: RayJobView, cluster: ClusterView | None, pods: tuple[PodView, ...], progress: Progress | None
) -> None:
    head = head_pod(pods)
    ready = cluster is not None and cluster.head_ready is True and head is not None
    found = find_pending(cluster, pods)
    record_pending(draft, found)
    if ready or progress is not None:
        draft.stamp_attempt("ready_at")
        draft.condition(Condition.CLUSTER_READY, True, Reason.CLUSTER_READY)
        draft.condition(Condition.TRIALS_FINISHED, False, Reason.TRIALS_RUNNING)
        if not draft.status.attempts[-1].stop_reason:
            draft.state(Reason.RUNNING, found.message if found else "")
    elif draft.status.attempts[-1].ready_at is None:
        if job.suspended:
            draft.condition(Condition.CLUSTER_READY, False, Reason.QUEUED, "The RayJob is suspended: Kueue has not admitted it yet.")
        else:
            message = found.message if found else "The head pod is being started."
            draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_STARTING, message)
        draft.state(Reason.STARTING, found.message if found else "")
    if progress is not None and progress.phase in (Phase.WAITING_FOR_VERDICT, Phase.ENDED):
        draft.condition(Condition.TRIALS_FINISHED, True, Reason.TRIALS_FINISHED)


def _second_look(draft: Draft, progress: Progress | None) -> Verdict | None:
    """Asks for, records and returns the verdict on the receipt that the driver waits with."""
    if progress is None or progress.receipt_digest is None or progress.phase is not Phase.WAITING_FOR_VERDICT:
        return None
    digest = progress.receipt_digest
    found = draft.observed.store.settlement
    if found is None or found.digest != digest or found.attempt_id != progress.attempt_id:
        if not draft.observed.store.settling:
            draft.after.append(Settle(progress.attempt_id, digest))
        draft.wake(draft.now + 2)
        return None
    before = draft.status.checkpoints.receipt_digest
    record_settlement(draft, found)
    if found.proof is Proof.PERSISTED and before != digest:
        draft.event(Reason.VERIFIED, f"{found.verified} of {found.required} owed checkpoints are proven: {found.bytes} bytes.")
    if found.proof in (Proof.UNKNOWN, Proof.INVALID) and draft.now >= found.made_at + RELOOK_SECONDS:
        if not draft.observed.store.settling:
            draft.after.append(Settle(progress.attempt_id, digest))
    return verdict_of(found)


def _deadlines(draft: Draft, spec: TrainSweepSpec, pods: tuple[PodView, ...]) -> None:
    attempt = draft.status.attempts[-1]
    limit = class_total_limit(draft)
    if not attempt.stop_reason:
        due = deadlines.stop_due(spec, draft.status, draft.now, limit)
        if due is not None:
            ask_to_stop(draft, due)
        draft.wake(deadlines.next_deadline(spec, draft.status, draft.now, limit))
    obey(draft, spec, pods)


def obey(draft: Draft, spec: TrainSweepSpec, pods: tuple[PodView, ...]) -> None:
    """Ends an attempt that was asked to stop and has no driver that could, or did not obey in time."""
    attempt = draft.status.attempts[-1]
    if not attempt.stop_reason:
        return
    stopped = to_seconds(attempt.stop_at) or draft.now
    draft.state(Reason.STOPPING, f"Stopping: {attempt.stop_reason}.")
    if attempt.ready_at is None and (draft.observed.pods is not None and not isinstance(draft.observed.pods, Unreadable)):
        cause = Cause.STARTUP_DEADLINE if attempt.stop_reason == Stop.STARTUP_DEADLINE else Cause.STOP_NOT_OBEYED
        why = draft.status.pending.message if draft.status.pending else "no driver had started"
        end(draft, cause, f"{attempt.stop_reason}: {why}")
        return
    patience = spec.cleanup.stop_grace_seconds + spec.checkpoints.verify.timeout_seconds + OBEY_MARGIN
    if draft.now >= stopped + patience:
        end(draft, Cause.STOP_NOT_OBEYED, f"The driver did not end within {int(patience)} s of being asked to ({attempt.stop_reason}).")
        return
    draft.wake(stopped + patience)


def _control(draft: Draft, spec: TrainSweepSpec, pods: tuple[PodView, ...], verdict: Verdict | None) -> None:
    """Brings the control annotation to what it should say, if it does not say it."""
    head = head_pod(pods)
    attempt = draft.status.attempts[-1]
    if head is None:
        return
    own = attempt_id(attempt.number, draft.observed.sweep.uid)
    before = head.control if head.control is not None and head.control.attempt_id == own else None
    stop = None
    if attempt.stop_reason:
        stop = StopRequest(reason=attempt.stop_reason, grace_seconds=spec.cleanup.stop_grace_seconds)
    wanted = Control(attempt_id=own, stop=stop, verdict=verdict or (before.verdict if before else None))
    if (wanted.stop or wanted.verdict) and wanted != before:
        draft.after.append(PatchControl(head.name, wanted))


def _raise_backstop(draft: Draft, spec: TrainSweepSpec, job: RayJobView) -> None:
    """A deadline that was raised while running: KubeRay's backstop is moved first, so that it never strikes before ours."""
    attempt = draft.status.attempts[-1]
    started = to_seconds(attempt.started_at) or draft.now
    first = to_seconds(draft.status.started_at) or started
    limit = class_total_limit(draft)
    wanted = deadlines.backstop_seconds(spec, started, deadlines.driver_deadline(spec, started, first, limit))
    if wanted is not None and job.active_deadline_seconds is not None and wanted > job.active_deadline_seconds:
        draft.ahead.append(PatchRayJob(job.name, job.uid, {"activeDeadlineSeconds": wanted}))


def verified(draft: Draft) -> bool | None:
    """Status of CheckpointsVerified as a truth value; None for Unknown or absent."""
    found = find_condition(draft.status, Condition.CHECKPOINTS_VERIFIED)
    return None if found is None or found.status == "Unknown" else found.status == "True"
