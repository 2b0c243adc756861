"""Letting a settled attempt's cluster go: the lease is ended, the hold removed, and the last pod waited for."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.core.draft import Draft, find_condition, is_true
from trainsweep.core.model import (
    ClusterView,
    DeleteHold,
    DeleteRayCluster,
    DeleteRayJob,
    PatchRayJob,
    RayJobView,
    Unreadable,
)
from trainsweep.core.times import to_seconds
from trainsweep.core.usage import given_back
from trainsweep.render.rayjob import hold_name

ENDED = ("Complete", "Failed")
POLL_SECONDS = 3.0


def release(draft: Draft, *, delete: bool = False, reason: Reason = Reason.RELEASED) -> bool:
    """One pass towards an attempt without pods.

    Args:
        draft: the plan in the making; the newest attempt is settled, or its release is forced.
        delete: remove the RayJob object too (the sweep is being deleted), not only its cluster.
        reason: what Released says in the end.

    Returns:
        Whether the attempt is gone: no pod and no hold is left, and no RayJob if `delete`.
    """
    attempt = draft.status.attempts[-1]
    if attempt.gone_at is not None and not delete:
        return True
    job, hold = draft.observed.ray_job, draft.observed.hold
    if isinstance(job, Unreadable):
        draft.wake(draft.now + POLL_SECONDS)
        return False
    # Pods of an attempt that was gone once are not read any more.
    pods = draft.observed.pods if attempt.gone_at is None else ()
    draft.stamp_attempt("released_at")
    mine = job if job is not None and job.sweep_uid == draft.observed.sweep.uid else None
    if mine is not None and not mine.deleting:
        if delete or mine.deployment_status not in ENDED:
            draft.after.append(DeleteRayJob(mine.name, mine.uid))
        elif mine.ttl_seconds != 0:
            draft.after.append(PatchRayJob(mine.name, mine.uid, {"ttlSecondsAfterFinished": 0}))
    # KubeRay ends the clusters of RayJobs, the garbage collector those of deleted ones; an orphan has nobody but us.
    draft.after += [DeleteRayCluster(c.name, c.uid) for c in draft.observed.orphans]
    if hold is not None:
        draft.after.append(DeleteHold(hold_name(attempt.ray_job)))
    if not (pods == () and hold is None and _let_go(mine, delete) and _no_cluster(draft, mine)):
        if not is_true(draft.status, Condition.RELEASED):
            draft.condition(Condition.RELEASED, False, Reason.HELD, "The cluster is being torn down.")
        draft.wake(draft.now + POLL_SECONDS)
        return False
    draft.stamp_attempt("gone_at")
    draft.set(usage=given_back(draft.status.usage))
    if reason is Reason.RELEASED and _unproven(draft):
        reason = Reason.RELEASED_AFTER_HOLD
    draft.condition(Condition.CLUSTER_READY, False, Reason.CLUSTER_GONE)
    draft.condition(Condition.RELEASED, True, reason)
    return True


def _unproven(draft: Draft) -> bool:
    """Whether the attempt was settled because its longest hold was over, and nobody knows what it left."""
    settled, hold = to_seconds(draft.status.attempts[-1].settled_at), to_seconds(draft.status.deadlines.hold)
    said = find_condition(draft.status, Condition.CHECKPOINTS_VERIFIED)
    return (
        settled is not None and hold is not None and settled >= hold and said is not None and said.status == "Unknown"
    )


def _let_go(mine: RayJobView | None, delete: bool) -> bool:
    """Whether the RayJob is gone, or can make no pod any more."""
    if mine is None:
        return True
    return not delete and not mine.deleting and mine.ttl_seconds == 0 and mine.deployment_status in ENDED


def _no_cluster(draft: Draft, mine: RayJobView | None) -> bool:
    """Whether no cluster is left that could still make a pod: an orphan, or one that the garbage collector has yet to find."""
    cluster = draft.observed.cluster
    if isinstance(cluster, Unreadable) or draft.observed.orphans:
        return False
    return mine is not None or not isinstance(cluster, ClusterView) or cluster.deleting


def object_ttl_at(draft: Draft, ttl_seconds: int) -> float | None:
    """When the last RayJob object may be deleted."""
    finished = to_seconds(draft.status.finished_at)
    return None if finished is None else finished + ttl_seconds
