"""Layer KubeRay: the RayCluster is made, and its groups hold as many pods as the trials ask for."""

from __future__ import annotations

from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import items, mapping, name_of, seconds, text, whole
from trainsweep.core.pending.situation import Answer, Finding, Situation, cut, is_head, live, phase

SILENT_AFTER = 60.0
"""Seconds in which a running KubeRay has long said a first word on a RayJob (measured: under 2 s)."""


def look(seen: Situation) -> Answer:
    """Silent, failing to make the cluster, or at a group's maximum while trials wait."""
    job = seen.ray_job
    if job is None:
        return None
    for event in seen.of(job, "FailedToCreateRayCluster", "FailedToUpdateRayCluster"):
        if seen.ray_cluster is None:
            words = cut(text(event.get("message")))
            return Finding(Layer.KUBERAY, Why.CLUSTER_NOT_MADE, words, "see the log of the KubeRay operator")
    for event in seen.of(seen.ray_cluster, "AutoscalerServiceAccountNotFound"):
        words = cut(text(event.get("message")))
        cure = "create the ServiceAccount that spec.storage.serviceAccountName names"
        return Finding(Layer.KUBERAY, Why.SERVICE_ACCOUNT_NOT_FOUND, words, cure)
    suspended = mapping(job.get("spec")).get("suspend") is True
    made = seconds(mapping(job.get("metadata")).get("creationTimestamp"))
    age = seen.now - made if made is not None else 0.0
    if not suspended and seen.ray_cluster is None and age > SILENT_AFTER:
        if not mapping(job.get("status")).get("jobDeploymentStatus"):
            words = f"KubeRay has said nothing on RayJob {name_of(job)} for {int(age)} s"
            cure = "is the KubeRay operator running, and does it watch this namespace?"
            return Finding(Layer.KUBERAY, Why.KUBERAY_SILENT, words, cure)
        words = f"RayJob {name_of(job)} has no RayCluster after {int(age)} s"
        return Finding(Layer.KUBERAY, Why.CLUSTER_NOT_MADE, words, "see the log of the KubeRay operator")
    return _at_maximum(seen)


def _at_maximum(seen: Situation) -> Finding | None:
    """All pods that the groups may have run, and they hold fewer trials than should run.

    That fewer run alone says nothing: between two trials one always does.
    """
    trials, demand = seen.status.trials, seen.demand
    if demand is None or not trials.running:
        return None
    wanted = min(demand.trials, trials.running + trials.pending)
    if trials.running >= wanted:
        return None
    pods = [p for p in live(seen.pods) if not is_head(p)]
    if not pods or any(phase(p) != "Running" for p in pods):
        return None
    groups = items(mapping(mapping(seen.ray_cluster).get("spec")).get("workerGroupSpecs"))
    most = [(text(g.get("groupName"), 63), whole(g.get("maxReplicas")) or 0) for g in groups]
    if not most or len(pods) < sum(n for _, n in most):
        return None
    if sum(n * demand.workers_per_pod.get(name, 0) for name, n in most) >= wanted * demand.workers:
        return None
    names = ", ".join(f"{name} has {n} of {n}" for name, n in most)
    words = f"{trials.running} of {wanted} trials run: group {names} pods"
    return Finding(
        Layer.KUBERAY, Why.GROUP_AT_MAXIMUM, words, "raise maxReplicas, or the class's limits.gpus that cuts it", True
    )
