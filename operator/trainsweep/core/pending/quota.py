"""Layer Quota: the API server refuses the RayJob or a pod: ResourceQuota, LimitRange, Pod Security, a missing name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainsweep.api.conditions import Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import condition, mapping, name_of, strings, text
from trainsweep.core.pending.situation import Answer, Finding, Situation, Unread, cut

_EXCEEDED = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.+?), used: (?P<used>.+?), limited: (?P<limit>[^;)\s]+)"
)
_PAIR = re.compile(r"([A-Za-z0-9./_-]+)=([0-9A-Za-z.]+)")
_TEXTS: tuple[tuple[str, Why, str, bool], ...] = (
    ("must specify", Why.QUOTA_NEEDS_REQUESTS,
     "the quota wants requests and limits on every container: give sidecars of your podTemplate both", False),
    ("insufficient quota to consume", Why.QUOTA_EXCEEDED,
     "the quota has a scope that this pod may not use: check spec.scheduling.priorityClassName", False),
    ("status unknown for quota", Why.QUOTA_UNKNOWN, "", True),
    ("resource quota evaluation timed out", Why.QUOTA_UNKNOWN, "", True),
    ("usage per Container", Why.LIMIT_RANGE, "ask for resources within the namespace's LimitRange", False),
    ("usage per Pod", Why.LIMIT_RANGE, "ask for resources within the namespace's LimitRange", False),
    ("limit to request ratio", Why.LIMIT_RANGE, "ask for resources within the namespace's LimitRange", False),
    ("error looking up service account", Why.SERVICE_ACCOUNT_NOT_FOUND,
     "create the ServiceAccount that spec.storage.serviceAccountName names, in the sweep's namespace", False),
    ("no PriorityClass with name", Why.PRIORITY_CLASS_NOT_FOUND,
     "name an existing PriorityClass in spec.scheduling.priorityClassName", False),
    ("violates PodSecurity", Why.POD_SECURITY,
     "remove what is named from the pod templates, or ask the platform team for the class's podOverlay", False),
)  # fmt: skip


def _refusals(seen: Situation) -> Iterator[str]:
    """What the API server said, the newest first within a source."""
    if seen.refusal:
        yield seen.refusal
    failure = mapping(condition(seen.ray_cluster, "ReplicaFailure"))
    if failure.get("status") == "True":
        yield text(failure.get("message")) or text(failure.get("reason"))
    elif condition(seen.ray_cluster, "ReplicaFailure") is None:
        # Older versions of KubeRay have no such condition, only Events; one of a pod that came later is past.
        made = len(seen.pods)
        for event in seen.of(seen.ray_cluster, "FailedToCreateHeadPod", "FailedToCreateWorkerPod"):
            if event.get("reason") == "FailedToCreateHeadPod" and made:
                continue
            yield text(event.get("message"))


def look(seen: Situation) -> Answer:
    """The first refusal, by its words."""
    for words in _refusals(seen):
        if found := _exceeded(seen, words):
            return found
        for mark, reason, cure, passing in _TEXTS:
            if mark in words:
                return Finding(Layer.QUOTA, reason, cut(words), cure, passing)
        return Finding(
            Layer.QUOTA, Reason.POD_REFUSED, cut(words), "the API server or a webhook of the cluster refuses it"
        )
    if seen.ray_cluster is not None and not seen.pods and (why := seen.unread.get("Event")):
        return Unread(Layer.QUOTA, f"Event: {why}")
    return None


def _exceeded(seen: Situation, words: str) -> Finding | None:
    found = _EXCEEDED.search(words)
    if found is None:
        return None
    asked, used, limit = (dict(_PAIR.findall(found[part])) for part in ("asked", "used", "limit"))
    parts = [f"{what}: {amount} asked, {used.get(what, '?')} of {limit.get(what, '?')} used"
             for what, amount in asked.items() if what in limit]  # fmt: skip
    name = found["quota"].strip()
    now = next((q for q in seen.quotas if name_of(q) == name), None)
    status = mapping(mapping(now).get("status"))
    hard, held = strings(status.get("hard")), strings(status.get("used"))
    fresh = ", ".join(f"{w}: {held.get(w, '?')} of {hard[w]}" for w in asked if w in hard and w in held)
    message = f"ResourceQuota {name} is spent: {', '.join(parts) or cut(words)}"
    if fresh:
        message += f" (now {fresh})"
    cure = "lower trials.maxConcurrent, end another workload of the namespace, or ask for more quota"
    return Finding(Layer.QUOTA, Why.QUOTA_EXCEEDED, cut(message), cure)
