"""Letting a settled attempt's cluster go: the lease is ended, the hold removed, and the last pod waited for."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.core.draft import Draft, is_true
from trainsweep.core.model import DeleteHold, DeleteRayJob, PatchRayJob, RayJobView, Unreadable
from trainsweep.core.times import to_seconds
from trainsweep.render.rayjob import hold_name

ENDED = ("Complete", "Failed")


def release(draft: Draft, *, delete: bool = False, reason: Reason = Reason.RELEASED) -> bool:
    """One pass towards an attempt without pods.

    Args:
        draft: the plan in the making; the newest attempt is settled, or its release is forced.
        delete: remove the RayJob object too (the sweep is being deleted), not only its cluster.
        reason: what Released says in the end.

    Returns:
        Whether the attempt is gone: no pod is left, and no RayJob if `delete`.
    """
    attempt = draft.status.attempts[-1]
    if attempt.gone_at is not None and not delete:
        return True
    job, pods, hold = draft.observed.ray_job, draft.observed.pods, draft.observed.hold
    if isinstance(job, Unreadable) or isinstance(pods, Unreadable):
        draft.wake(draft.now + 5)
        return False
    draft.stamp_attempt("released_at")
    if isinstance(job, RayJobView) and job.sweep_uid == draft.observed.sweep.uid and not job.deleting:
        if delete or job.deployment_status not in ENDED:
            draft.after.append(DeleteRayJob(job.name, job.uid))
        elif job.ttl_seconds != 0:
            draft.after.append(PatchRayJob(job.name, job.uid, {"ttlSecondsAfterFinished": 0}))
    if hold is not None:
        draft.after.append(DeleteHold(hold_name(attempt.ray_job)))
    gone = pods == () and (job is None or (not delete and isinstance(job, RayJobView) and not job.deleting and job.ttl_seconds == 0 and job.deployment_status in ENDED))
    if not gone:
        if not is_true(draft.status, Condition.RELEASED):
            draft.condition(Condition.RELEASED, False, Reason.HELD, "The cluster is being torn down.")
        draft.wake(draft.now + 3)
        return False
    draft.stamp_attempt("gone_at")
    draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_GONE)
    draft.condition(Condition.RELEASED, True, reason)
    return True


def object_ttl_at(draft: Draft, ttl_seconds: int) -> float | None:
    """When the last RayJob object may be deleted."""
    finished = to_seconds(draft.status.finished_at)
    return None if finished is None else finished + ttl_seconds
