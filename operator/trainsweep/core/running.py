"""A live attempt: its cluster's conditions, progress, the verdict to a waiting driver, stops, the sight of the end."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import Control, Phase, Progress, StopRequest, Verdict
from trainsweep.core import deadlines
from trainsweep.core.draft import Draft
from trainsweep.core.ends import Cause, Stop
from trainsweep.core.launch import (
    class_of,
    class_total_limit,
    driver_limits,
    first_start,
    refresh_deadlines,
    relaunch_same,
)
from trainsweep.core.model import (
    FINALIZER,
    AddFinalizer,
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
from trainsweep.core.pending.record import find_pending, record_pending, record_refusal
from trainsweep.core.pending.spec import refused
from trainsweep.core.progress import record_progress
from trainsweep.core.sight import (
    end_seen,
    head_pod,
    is_foreign,
    left_traces,
    own_attempt,
    own_progress,
    seen_pods,
    traces_unknown,
    vanished,
    was_alive,
)
from trainsweep.core.times import to_seconds, to_text
from trainsweep.core.usage import exhausted_at, over_budget
from trainsweep.core.verification import RELOOK_SECONDS, record_settlement, recorded_proof, verdict_of
from trainsweep.render.rayjob import hold_name

POLL_SECONDS = 5.0
CONFLICT_SECONDS = 60.0
OBEY_MARGIN = 60.0
"""Seconds after grace and verdict time-out in which a stopped driver must have ended."""
SILENT_SECONDS = 60.0
"""Seconds without a heartbeat, of which there is one every 5 s, after which no driver lives in a cluster without a RayJob."""


def watch(draft: Draft, spec: TrainSweepSpec) -> None:
    """One pass over a live attempt (`ended_at` is not set)."""
    seen = draft.observed.ray_job
    attempt = draft.status.attempts[-1]
    if FINALIZER not in draft.observed.sweep.finalizers and draft.observed.sweep.deletion_requested_at is None:
        draft.ahead.append(AddFinalizer())
    draft.wake(draft.now + POLL_SECONDS)
    if isinstance(seen, Unreadable):
        return
    if seen is None or vanished(draft):
        _without_ray_job(draft, spec)
        return
    if is_foreign(draft, spec, seen):
        _name_conflict(draft, spec)
        return
    if attempt.ray_job_uid not in ("", seen.uid):
        end(draft, Cause.RAY_JOB_DELETED, f"RayJob {attempt.ray_job} was deleted and made again by someone else.")
        return
    draft.set_attempt(ray_job_uid=seen.uid, spec_digest=seen.digest if not attempt.ray_job_uid else attempt.spec_digest)
    _keep_hold(draft, seen)
    cluster = draft.observed.cluster if isinstance(draft.observed.cluster, ClusterView) else None
    pods, progress = seen_pods(draft), own_progress(draft)
    if progress is not None:
        record_progress(draft, progress)
        draft.stamp_attempt("ready_at")
    cause = end_seen(draft, seen, cluster, pods)
    if cause is not None:
        end(draft, *cause)
        return
    _conditions(draft, seen, cluster, pods, progress)
    verdict = _second_look(draft, progress)
    _placed(draft, pods)
    _deadlines(draft, spec, progress)
    if draft.status.attempts[-1].ended_at is not None:
        return
    _control(draft, spec, pods, verdict)
    _raise_backstop(draft, spec, seen)


def end(draft: Draft, cause: Cause, message: str) -> None:
    """Latches what was seen to end the attempt; settlement comes next."""
    draft.set_attempt(ended_at=to_text(draft.now), reason=cause, message=message[:2048])
    reason = Reason.HEAD_LOST if cause is Cause.HEAD_LOST else Reason.CLUSTER_GONE
    draft.condition(Condition.CLUSTER_READY, False, reason, message)
    record_pending(draft, None)
    draft.wake_at = draft.now


def ask_to_stop(draft: Draft, stop: Stop) -> None:
    """Books the stop; the control annotation carries it to the driver in the same pass."""
    if not draft.status.attempts[-1].stop_reason:
        draft.set_attempt(stop_reason=stop, stop_at=to_text(draft.now))
        kind = "Normal" if stop in (Stop.DELETED, Stop.SUSPENDED) else "Warning"
        draft.event(Reason.STOPPING, f"Asking the driver to stop: {stop}.", kind)


def _without_ray_job(draft: Draft, spec: TrainSweepSpec) -> None:
    """No RayJob under the attempt's name: it was deleted, or never made; then it is made, while there is time."""
    attempt, progress = draft.status.attempts[-1], draft.observed.store.progress
    if left_traces(draft):
        if _none_left_running(draft, spec):
            left = "; the cluster that it left goes once it is settled" if draft.observed.orphans else ""
            end(draft, Cause.RAY_JOB_DELETED, f"RayJob {attempt.ray_job} was deleted by someone else{left}.")
        return
    if _end_unmade(draft, spec, draft.observed.refusal or "its RayJob could not be made") or traces_unknown(draft):
        return
    # A marker in the store proves that a driver of this attempt has run: it is looked for before a second one is made. Where
    # the store refuses us nobody knows, unless the API server has refused the first.
    if not isinstance(progress, Unreadable) or (progress.denied and draft.observed.refusal):
        relaunch_same(draft, spec)
    else:
        words = (
            f"Whether a driver of attempt {attempt.number} has run cannot be read from the store: {progress.message}"
        )
        draft.state(Reason.STARTING, words)


def _none_left_running(draft: Draft, spec: TrainSweepSpec) -> bool:
    """Whether no driver lives on in a cluster that its RayJob left behind (deleted with `--cascade=orphan`).

    One that may is stopped as for any stop and gets its verdict: what settles then is quiet, and proven by its receipt.
    KubeRay, too, has asked it to stop, once; a driver that it could not reach trains on, and nobody else ends it.
    """
    if traces_unknown(draft):
        return False
    pods = seen_pods(draft)
    if not draft.observed.orphans or head_pod(pods) is None or not was_alive(draft):
        return True
    ask_to_stop(draft, Stop.RAY_JOB_DELETED)
    progress, stopped = own_progress(draft), to_seconds(draft.status.attempts[-1].stop_at) or draft.now
    if progress is not None:
        record_progress(draft, progress)
    until = stopped + _patience(spec)
    if not isinstance(draft.observed.store.progress, Unreadable):
        until = min(until, max(stopped, progress.heartbeat_at if progress else stopped) + SILENT_SECONDS)
    if draft.now >= until or (progress is not None and progress.phase is Phase.ENDED):
        return True
    draft.state(
        Reason.STOPPING, f"RayJob {draft.status.attempts[-1].ray_job} was deleted, its cluster was left: stopping."
    )
    _control(draft, spec, pods, _second_look(draft, progress))
    draft.wake(until)
    return False


def _name_conflict(draft: Draft, spec: TrainSweepSpec) -> None:
    name = draft.status.attempts[-1].ray_job
    what = f"A RayJob {name} exists that this sweep did not make"
    words = refused(Reason.NAME_CONFLICT, what).words
    if _end_unmade(draft, spec, words):
        return
    draft.condition(Condition.ADMITTED, False, Reason.NAME_CONFLICT, what)
    draft.stalled(Reason.NAME_CONFLICT, words)
    record_refusal(draft, Reason.NAME_CONFLICT, what)
    draft.wake_at = draft.now + CONFLICT_SECONDS


def _end_unmade(draft: Draft, spec: TrainSweepSpec, why: str) -> bool:
    """Deadlines hold also for an attempt whose RayJob cannot be made."""
    found = refresh_deadlines(draft, spec)
    due = deadlines.stop_due(found, draft.now)
    draft.wake(deadlines.next_deadline(found, draft.now))
    if due is None and spec.suspend:
        due = Stop.SUSPENDED
    if due is None:
        return False
    ask_to_stop(draft, due)
    end(draft, Cause.STARTUP_DEADLINE if due is Stop.STARTUP_DEADLINE else Cause.NEVER_READY, f"{due}: {why}")
    return True


def _keep_hold(draft: Draft, seen: RayJobView) -> None:
    hold = draft.observed.hold
    if isinstance(hold, Unreadable) or seen.deleting:
        return
    if hold is None or not seen.has_hold_owner:
        draft.after.append(RepairHoldReference(seen.name, hold_name(seen.name), draft.status.attempt))


def _conditions(
    draft: Draft, job: RayJobView, cluster: ClusterView | None, pods: tuple[PodView, ...], progress: Progress | None
) -> None:
    found = find_pending(draft)
    record_pending(draft, found)
    message = found.words if found else ""
    if (cluster is not None and cluster.head_ready is True and head_pod(pods) is not None) or progress is not None:
        draft.stamp_attempt("ready_at")
        draft.condition(Condition.CLUSTER_READY, True, Reason.CLUSTER_READY)
        waiting = progress is not None and progress.phase in (Phase.WAITING_FOR_VERDICT, Phase.EXPORTING, Phase.ENDED)
        reason = Reason.TRIALS_FINISHED if waiting else Reason.TRIALS_RUNNING
        draft.condition(Condition.TRIALS_FINISHED, waiting, reason)
        if not draft.status.attempts[-1].stop_reason:
            draft.state(Reason.VERIFYING if waiting else Reason.RUNNING, message)
    elif draft.status.attempts[-1].ready_at is None:
        if job.suspended:
            message = message or "The RayJob is suspended: Kueue has not admitted it yet."
            draft.condition(Condition.CLUSTER_READY, False, Reason.QUEUED, message)
        else:
            words = message or "The head pod is being started."
            draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_STARTING, words)
        draft.state(Reason.STARTING, message)


def _second_look(draft: Draft, progress: Progress | None) -> Verdict | None:
    """Asks for, records and returns the verdict on the receipt that the driver waits with."""
    if progress is None or progress.receipt_digest is None or progress.phase is not Phase.WAITING_FOR_VERDICT:
        return None
    digest = progress.receipt_digest
    proven = recorded_proof(draft)
    if proven is not None and proven.digest == digest:
        return verdict_of(proven)
    found, settling = draft.observed.store.settlement, draft.observed.store.settling
    if found is None or found.digest != digest or found.attempt_id != progress.attempt_id:
        if not settling:
            draft.after.append(Settle(progress.attempt_id, digest))
        return None
    record_settlement(draft, found)
    if found.proof is Proof.PERSISTED:
        words = f"{found.verified} of {found.required} owed checkpoints are proven: {found.bytes} bytes."
        draft.event(Reason.VERIFIED, words)
    undecided = found.proof in (Proof.UNKNOWN, Proof.INVALID)
    if undecided and draft.now >= found.made_at + RELOOK_SECONDS and not settling:
        draft.after.append(Settle(progress.attempt_id, digest))
    return verdict_of(found)


def _placed(draft: Draft, pods: tuple[PodView, ...]) -> None:
    """Stamps when head and a first worker ran: the wait for admission and for nodes is over."""
    alive = [p.head for p in pods if p.phase == "Running" and not p.deleting]
    if True in alive and False in alive:
        draft.stamp_attempt("placed_at")


def _deadlines(draft: Draft, spec: TrainSweepSpec, progress: Progress | None) -> None:
    attempt = draft.status.attempts[-1]
    found = refresh_deadlines(draft, spec, progress)
    if not attempt.stop_reason:
        due = deadlines.stop_due(found, draft.now)
        blind = attempt.ready_at is not None and isinstance(draft.observed.store.progress, Unreadable)
        used_up = over_budget(draft.status, spec, class_of(draft))
        # Unreadable is not failed: who cannot read heartbeats cannot say that no trial has reported.
        if due is not None and not (due in (Stop.STARTUP_DEADLINE, Stop.QUEUED_DEADLINE) and blind):
            ask_to_stop(draft, due)
        elif used_up and not _ending(draft):
            ask_to_stop(draft, Stop.BUDGET)
        elif spec.suspend and not _ending(draft):
            ask_to_stop(draft, Stop.SUSPENDED)
        draft.wake(deadlines.next_deadline(found, draft.now))
        draft.wake(exhausted_at(draft.status, spec, class_of(draft), draft.now))
    obey(draft, spec)


def _ending(draft: Draft) -> bool:
    """Whether the driver has trained and only waits for its verdict: it ends by itself, and sooner than by a stop."""
    progress = own_progress(draft)
    return progress is not None and progress.phase in (Phase.WAITING_FOR_VERDICT, Phase.ENDED)


def obey(draft: Draft, spec: TrainSweepSpec) -> None:
    """Ends an attempt that was asked to stop and has no driver that could, or did not obey in time."""
    attempt = draft.status.attempts[-1]
    if not attempt.stop_reason:
        return
    stopped = to_seconds(attempt.stop_at) or draft.now
    draft.state(Reason.STOPPING, f"Stopping: {attempt.stop_reason}.")
    if isinstance(draft.observed.pods, tuple) and (attempt.ready_at is None or _never_submitted(draft)):
        startup = attempt.stop_reason == Stop.STARTUP_DEADLINE
        why = draft.status.pending.message if draft.status.pending else "no driver had started"
        end(draft, Cause.STARTUP_DEADLINE if startup else Cause.NEVER_READY, f"{attempt.stop_reason}: {why}")
        return
    patience = _patience(spec)
    if draft.now >= stopped + patience:
        words = f"The driver did not end within {int(patience)} s of being asked to ({attempt.stop_reason})."
        end(draft, Cause.STOP_NOT_OBEYED, words)
        return
    draft.wake(stopped + patience)


def _never_submitted(draft: Draft) -> bool:
    """Whether the head runs, but its cluster never became whole, so that KubeRay has submitted no job to it.

    A worker that no quota admits or no node takes leaves it so for as long as it lasts. The head was told to stop first:
    a driver that KubeRay's status does not show yet finds the stop when it starts, and trains nothing.
    """
    job, head, progress = draft.observed.ray_job, head_pod(seen_pods(draft)), draft.observed.store.progress
    if not isinstance(job, RayJobView) or job.deployment_status not in ("", "Initializing") or job.job_status:
        return False
    if isinstance(progress, Unreadable) or own_progress(draft) is not None or head is None or head.control is None:
        return False
    return head.control.attempt_id == own_attempt(draft) and head.control.stop is not None


def _patience(spec: TrainSweepSpec) -> float:
    """Seconds that a driver that was asked to stop has for its loops, its settlement and its verdict."""
    return spec.cleanup.stop_grace_seconds + spec.checkpoints.verify.timeout_seconds + OBEY_MARGIN


def _control(draft: Draft, spec: TrainSweepSpec, pods: tuple[PodView, ...], verdict: Verdict | None) -> None:
    """Brings the control annotation to what it should say, if it does not say it."""
    head = head_pod(pods)
    attempt = draft.status.attempts[-1]
    if head is None:
        return
    own = own_attempt(draft)
    before = head.control if head.control is not None and head.control.attempt_id == own else None
    stop = before.stop if before else None
    if attempt.stop_reason:
        stop = StopRequest(reason=attempt.stop_reason, grace_seconds=spec.cleanup.stop_grace_seconds)
    started = to_seconds(attempt.started_at) or draft.now
    limits = driver_limits(draft, spec, started, attempt.gpu_seconds_before, attempt.cpu_seconds_before)
    wanted = Control(attempt_id=own, stop=stop, verdict=verdict or (before.verdict if before else None), limits=limits)
    changed = before is not None and before.limits != limits
    if (wanted.stop or wanted.verdict or changed) and wanted != before:
        draft.after.append(PatchControl(head.name, wanted))


def _raise_backstop(draft: Draft, spec: TrainSweepSpec, job: RayJobView) -> None:
    """A deadline that was raised or removed: KubeRay's backstop moves first, so that it never strikes before ours."""
    if job.active_deadline_seconds is None or job.deployment_status in ("", "Suspended") or job.deleting:
        return
    started = to_seconds(draft.status.attempts[-1].started_at) or draft.now
    deadline = deadlines.driver_deadline(spec, started, first_start(draft), class_total_limit(draft))
    wanted = deadlines.backstop_seconds(spec, started, deadline) or deadlines.NEVER
    if wanted > job.active_deadline_seconds:
        draft.ahead.append(PatchRayJob(job.name, job.uid, {"activeDeadlineSeconds": wanted}))
