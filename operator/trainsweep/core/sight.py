"""What the objects of a live attempt show: whether it has ended, whether its driver ever ran, whose RayJob it is."""

from __future__ import annotations

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.contract.documents import Progress
from trainsweep.contract.layout import attempt_id
from trainsweep.core.draft import Draft
from trainsweep.core.ends import Cause
from trainsweep.core.launch import current_digest
from trainsweep.core.model import ClusterView, PodView, RayJobView, Unreadable
from trainsweep.core.pending.record import image_not_found, never_starts
from trainsweep.core.times import to_seconds

NEVER_STARTS_AFTER = 60.0
"""Seconds on its node that a pod whose image can never be had is given, in case one is being loaded right now."""
NOT_FOUND_AFTER = 600.0
"""Seconds on its node that a pod is given whose registry has no such image: a push may be under way."""
_HEAD_GONE = ("Ray head pod not found", "Submitter completed but Ray job not found")
"""Begin KubeRay's messages of a job that it calls failed because its cluster is gone."""
_INVENTED = "The RayJob submitter finished at"
"""Begins KubeRay's message where it invents FAILED 30 s after its submitter ended, without asking Ray."""


def own_attempt(draft: Draft) -> str:
    """Id of the newest attempt."""
    return attempt_id(draft.status.attempts[-1].number, draft.observed.sweep.uid)


def own_job(draft: Draft) -> RayJobView | None:
    """The RayJob under the attempt's name, if it carries our label: what somebody else made there says nothing of ours."""
    job = draft.observed.ray_job
    return job if isinstance(job, RayJobView) and job.sweep_uid == draft.observed.sweep.uid else None


def vanished(draft: Draft) -> bool:
    """Whether the attempt's RayJob was there and is not any more, though somebody else may have taken its name."""
    unreadable = isinstance(draft.observed.ray_job, Unreadable)
    return not unreadable and own_job(draft) is None and left_traces(draft)


def own_progress(draft: Draft) -> Progress | None:
    """The heartbeat, if it is one of the newest attempt."""
    found = draft.observed.store.progress
    return found if isinstance(found, Progress) and found.attempt_id == own_attempt(draft) else None


def seen_pods(draft: Draft) -> tuple[PodView, ...]:
    """The attempt's pods, none where they could not be read."""
    return draft.observed.pods if isinstance(draft.observed.pods, tuple) else ()


def head_pod(pods: tuple[PodView, ...]) -> PodView | None:
    """The attempt's live head pod."""
    return next((p for p in pods if p.head and not p.deleting and p.phase in ("Pending", "Running")), None)


def is_foreign(draft: Draft, spec: TrainSweepSpec | None, job: RayJobView) -> bool:
    """Whether the RayJob under our name is not the newest attempt's.

    By the label with the sweep's uid and, until its own uid is recorded, by the digest: of what was rendered at the
    launch, or of what is rendered now, where the spec or the operator changed before the POST went through.
    """
    attempt = draft.status.attempts[-1]
    if job.sweep_uid != draft.observed.sweep.uid:
        return True
    if attempt.ray_job_uid or not attempt.spec_digest or job.digest == attempt.spec_digest:
        return False
    return spec is None or job.digest != current_digest(draft, spec)


def was_alive(draft: Draft) -> bool:
    """Whether the newest attempt's driver may ever have run, so that there is something to settle."""
    attempt, job, store = draft.status.attempts[-1], own_job(draft), draft.observed.store
    if attempt.ready_at is not None or attempt.first_report_at is not None or own_progress(draft) is not None:
        return True
    if job is not None:
        return job.job_status != ""
    # Vanished, and nobody can say whether it ran.
    return attempt.ray_job_uid != "" and isinstance(store.progress, Unreadable)


def left_traces(draft: Draft) -> bool:
    """Whether the newest attempt's RayJob must have existed, although none is there now.

    A RayCluster with our labels was made by KubeRay from it, and is there before its first pod. A driver leaves its marker in the
    store before anything else.
    """
    seen = bool(seen_pods(draft)) or isinstance(draft.observed.cluster, ClusterView)
    begun = draft.observed.store.started or own_progress(draft) is not None
    return draft.status.attempts[-1].ray_job_uid != "" or seen or begun


def traces_unknown(draft: Draft) -> bool:
    """Whether nobody can say now what the newest attempt's RayJob left behind: unknown is not missing."""
    return isinstance(draft.observed.cluster, Unreadable) or isinstance(draft.observed.pods, Unreadable)


def end_seen(
    draft: Draft, job: RayJobView, cluster: ClusterView | None, pods: tuple[PodView, ...]
) -> tuple[Cause, str] | None:
    """What ended the attempt, if something did. A job status that is none of Ray's own words proves nothing."""
    said = job.message or job.reason
    match job.deployment_status:
        case "Complete":
            return _complete(job, said)
        case "Failed":
            return _failed(job, said) or _head_lost(draft, cluster, pods) or (Cause.UNKNOWN, said)
        case "ValidationFailed":
            return Cause.REFUSED, said or "KubeRay says ValidationFailed."
        case "Suspended" if draft.status.attempts[-1].ready_at:
            return Cause.SUSPENDED, "The RayJob was suspended: its cluster is gone."
        case _ if draft.status.attempts[-1].ready_at and (job.suspended or job.deployment_status == "Suspending"):
            return None  # Kueue or a person takes the cluster: it is booked as what it is once it is gone
        case _:
            return _head_lost(draft, cluster, pods) or _never_starts(draft, pods)


def _complete(job: RayJobView, said: str) -> tuple[Cause, str]:
    if job.job_status == "STOPPED":
        return Cause.JOB_STOPPED, said or "The Ray job was stopped from outside."
    return (Cause.JOB_SUCCEEDED if job.job_status == "SUCCEEDED" else Cause.UNKNOWN), said


def _failed(job: RayJobView, said: str) -> tuple[Cause, str] | None:
    if job.reason == "DeadlineExceeded":
        return Cause.BACKSTOP, said
    if job.reason == "PreRunningDeadlineExceeded":
        return Cause.STARTUP_DEADLINE, said
    if job.message.startswith(_HEAD_GONE):
        return Cause.HEAD_LOST, said
    if job.message.startswith(_INVENTED) or job.reason == "JobStatusCheckTimeoutExceeded":
        return None
    return (Cause.JOB_FAILED, said) if job.job_status == "FAILED" else None


def _head_lost(draft: Draft, cluster: ClusterView | None, pods: tuple[PodView, ...]) -> tuple[Cause, str] | None:
    """A provisioned cluster without a head: the RayJob is not told, and before KubeRay 1.7 it runs on for ever."""
    if not draft.status.attempts[-1].ready_at or cluster is None or cluster.head_ready is not False or head_pod(pods):
        return None
    dead = any(p.head and p.phase in ("Failed", "Succeeded") for p in pods)
    if cluster.head_reason != "HeadPodNotFound" and not dead:
        return None
    gone = next((p for p in pods if p.head and p.exit_reason), None)
    if gone is not None and gone.exit_reason == "OOMKilled":
        words = "The head was killed for memory (OOMKilled): raise cluster.head.resources.memory, or lower "
        return Cause.HEAD_OUT_OF_MEMORY, f"{words}trials.maxConcurrent."
    return Cause.HEAD_LOST, f"The head pod was lost ({gone.exit_reason if gone else cluster.head_reason})."


def _taken_before(draft: Draft, pods: tuple[PodView, ...], seconds: float) -> tuple[PodView, ...]:
    """Pods that a node took so long ago: one whose node came late has the same time to be given its image."""
    since = to_seconds(draft.status.attempts[-1].started_at) or draft.now
    return tuple(p for p in pods if draft.now - (since if p.started_at is None else p.started_at) > seconds)


def _never_starts(draft: Draft, pods: tuple[PodView, ...]) -> tuple[Cause, str] | None:
    lost = never_starts(_taken_before(draft, pods, NEVER_STARTS_AFTER))
    lost = lost or image_not_found(_taken_before(draft, pods, NOT_FOUND_AFTER))
    if lost is None or draft.status.attempts[-1].first_report_at is not None:
        return None
    return Cause.CANNOT_START, f"{lost.problem_reason}: {lost.problem_message}"
