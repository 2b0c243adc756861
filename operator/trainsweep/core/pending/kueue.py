"""Layer Kueue: the Workload of the RayJob says why it is not admitted. Its texts are matched, since reasons differ by version."""

from __future__ import annotations

from trainsweep.api.conditions import Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import condition, items, mapping, text
from trainsweep.core.pending.situation import Answer, Finding, Object, Situation, Unread, cut

_TEXTS: tuple[tuple[str, Why, str, bool], ...] = (
    # in the order in which they are looked for: what can never be comes before what will be
    ("doesn't exist", Why.QUEUE_NOT_FOUND, "name a LocalQueue of this namespace in spec.scheduling.queueName", False),
    ("is inactive", Why.QUEUE_STOPPED, "ask the platform team why the queue is stopped", False),
    ("is stopped", Why.QUEUE_STOPPED, "ask the platform team why the queue is stopped", False),
    ("> maximum capacity", Why.NEVER_FITS_QUOTA,
     "lower trials.maxConcurrent or training.workers: the queue's whole quota is too small for this sweep", False),
    ("insufficient unused quota", Why.QUOTA_IN_USE, "it starts by itself when other workloads of the queue end", True),
    ("untolerated taint", Why.NO_FLAVOR, "add the toleration, or ask for a flavor without the taint", False),
    ("doesn't match node affinity", Why.NO_FLAVOR, "change the nodeSelector: no flavor of the queue has such nodes",
     False),
    ("topology", Why.NO_FLAVOR, "no topology of the queue has room for the pods: ask for fewer workers", False),
)  # fmt: skip
_REASONS: dict[str, tuple[Why, str, bool]] = {
    "ExceedsMaxQuota": (Why.NEVER_FITS_QUOTA, "lower trials.maxConcurrent or training.workers", False),
    "NoMatchingFlavor": (Why.NO_FLAVOR, "change nodeSelector or tolerations to fit a flavor of the queue", False),
    "Misconfigured": (Why.NO_FLAVOR, "ask the platform team to look at the queue's flavors", False),
    "TopologyPlacementFailed": (Why.NO_FLAVOR, "no topology of the queue has room for the pods", False),
    "WaitingForQuota": (Why.QUOTA_IN_USE, "it starts by itself when other workloads of the queue end", True),
    "WaitingForPreemptedWorkloads": (Why.QUOTA_IN_USE, "it starts when the preempted workloads are gone", True),
}
_EVICTED: dict[str, tuple[Why, str, bool]] = {
    "Preempted": (Why.PREEMPTED, "it is resumed by itself; finished trials are not run again", True),
    "PodsReadyTimeout": (
        Why.PODS_READY_TIMEOUT,
        "its pods were not ready in Kueue's time: look at why they waited, or ask for a longer waitForPodsReady",
        False,
    ),
    "ClusterQueueStopped": (Why.QUEUE_STOPPED, "ask the platform team why the queue is stopped", False),
    "LocalQueueStopped": (Why.QUEUE_STOPPED, "ask the platform team why the queue is stopped", False),
    "AdmissionCheck": (Why.ADMISSION_CHECKS, "see the admission check's own message", False),
    "NodeFailures": (Why.PREEMPTED, "it is queued anew by Kueue", True),
    "Deactivated": (Why.WORKLOAD_DEACTIVATED, "delete the sweep's RayJob, or ask the platform team to activate the "
                    "Workload", False),
}  # fmt: skip


def look(seen: Situation) -> Answer:
    """Nothing to say once admitted, or where the RayJob is in no queue and not suspended."""
    job = mapping(seen.ray_job)
    queue = text(mapping(mapping(job.get("metadata")).get("labels")).get("kueue.x-k8s.io/queue-name"), 253)
    suspended = mapping(job.get("spec")).get("suspend") is True
    if not queue and not suspended:
        return None
    if not seen.workloads:
        return _without_workload(seen, queue, suspended)
    work = max(seen.workloads, key=lambda w: text(mapping(w.get("metadata")).get("creationTimestamp"), 32))
    if mapping(condition(work, "Finished")).get("status") == "True":
        return None
    admitted = mapping(condition(work, "Admitted")).get("status") == "True"
    if admitted:
        return None
    if mapping(work.get("spec")).get("active") is False:
        evicted = mapping(condition(work, "Evicted"))
        return _found(queue, Why.WORKLOAD_DEACTIVATED, text(evicted.get("message")) or "the Workload is not active",
                      _EVICTED["Deactivated"][1], False)  # fmt: skip
    return _waiting(seen, work, queue)


def _without_workload(seen: Situation, queue: str, suspended: bool) -> Answer:
    if not suspended:
        return None
    if why := seen.unread.get("Workload"):
        if not queue:
            return Unread(Layer.KUEUE, f"Workload: {why}")
        words = (
            f"the RayJob is suspended: Kueue has not admitted it to queue {queue}; its Workload cannot be read ({why})"
        )
        return Finding(Layer.KUEUE, Reason.QUEUED, words, "kubectl get workloads shows more", True)
    if not queue:
        return Finding(Layer.KUEUE, Reason.QUEUED, "the RayJob is suspended, and no queue is set",
                       "set spec.scheduling.queueName: this cluster's Kueue may hold jobs without a queue")  # fmt: skip
    return Finding(
        Layer.KUEUE,
        Why.NO_WORKLOAD,
        f"the RayJob is suspended for queue {queue}, and Kueue has made no Workload for it",
        "is Kueue running, with ray.io/rayjob among its integrations?",
    )


def _waiting(seen: Situation, work: Object, queue: str) -> Answer:
    queue = queue or text(mapping(work.get("spec")).get("queueName"), 253)
    reserved, evicted = mapping(condition(work, "QuotaReserved")), mapping(condition(work, "Evicted"))
    if reserved.get("status") == "True":
        return _checks(work, queue)
    said, reason = text(reserved.get("message")), text(reserved.get("reason"), 128)
    if not said:
        newest = seen.of({**work, "kind": "Workload"}, "Pending")
        said = text(newest[0].get("message")) if newest else ""
    for words, why, cure, passing in _TEXTS:
        if words in said:
            return _found(queue, why, said, cure, passing)
    if reason in _REASONS:
        return _found(queue, _REASONS[reason][0], said or reason, *_REASONS[reason][1:])
    kind = text(evicted.get("reason"), 128)
    if evicted.get("status") == "True":
        # "DueTo..." is how older versions spell the reasons of Deactivated.
        entry = _EVICTED.get(kind) or (_EVICTED["Deactivated"] if kind.startswith("Deactivated") else None)
        if entry is not None:
            return _found(queue, entry[0], text(evicted.get("message")) or kind, *entry[1:])
    return _found(queue, Reason.QUEUED, said or "Kueue has not looked at it yet", "", True)


def _checks(work: Object, queue: str) -> Finding:
    checks = items(mapping(work.get("status")).get("admissionChecks"))
    waiting = [c for c in checks if c.get("state") != "Ready"]
    told = ", ".join(
        f"{text(c.get('name'), 128)} is {text(c.get('state'), 32) or 'Pending'}"
        + (f" ({text(c.get('message'), 200)})" if c.get("message") else "")
        for c in waiting
    )
    return _found(
        queue, Why.ADMISSION_CHECKS, f"quota is reserved; admission checks: {told or 'not all are ready'}", "", True
    )


def _found(queue: str, why: Why | Reason, said: str, cure: str, passing: bool) -> Finding:
    return Finding(Layer.KUEUE, why, cut(f"queue {queue}: {said}" if queue else said), cure, passing)
