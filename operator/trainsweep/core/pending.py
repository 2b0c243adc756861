"""Why an attempt waits: the lowest layer that is not satisfied, in the layer's own words.

Order of the layers: quota and refused pods, placement, image and configuration, container; then the cluster as a whole.
"""

from __future__ import annotations

from trainsweep.api.conditions import Reason
from trainsweep.api.status import PendingStatus
from trainsweep.core.draft import Draft
from trainsweep.core.model import ClusterView, PodView
from trainsweep.core.times import to_text

_ORDER = ("Placement", "Image", "Config", "Container")
_REASONS = {
    "Placement": Reason.UNSCHEDULABLE,
    "Image": Reason.IMAGE_PULL_FAILED,
    "Config": Reason.CONTAINER_FAILED,
    "Container": Reason.CONTAINER_FAILED,
}
_NEVER = ("InvalidImageName", "ErrImageNeverPull")


def find_pending(cluster: ClusterView | None, pods: tuple[PodView, ...]) -> PendingStatus | None:
    """The lowest unsatisfied layer among the attempt's pods, None where all run."""
    if cluster is not None and cluster.replica_failure:
        return PendingStatus(layer="Quota", reason=Reason.POD_REFUSED, message=cluster.replica_failure[:1024])
    for layer in _ORDER:
        for pod in sorted(pods, key=lambda p: (not p.head, p.name)):
            if pod.problem_layer == layer and not pod.deleting:
                return PendingStatus(
                    layer=layer,
                    reason=pod.problem_reason or _REASONS[layer],
                    message=f"{'head' if pod.head else 'worker'} {pod.name}: {pod.problem_message}"[:1024],
                )
    return None


def never_starts(pods: tuple[PodView, ...]) -> PodView | None:
    """A pod whose image can never be pulled, whatever the time."""
    return next((p for p in pods if p.problem_reason in _NEVER), None)


def record_pending(draft: Draft, found: PendingStatus | None) -> None:
    """Puts it into the status; `since` stays while layer and reason stay."""
    old = draft.status.pending
    if found is not None:
        same = old is not None and (old.layer, old.reason) == (found.layer, found.reason)
        since = old.since if same and old is not None else to_text(draft.now)
        found = found.model_copy(update={"since": since})
    draft.set(pending=found)
