"""What is read beside the attempt's own objects while something waits: Events, Workload, quotas, NodeClaims.

Bounded: nothing where nothing waits, a few pods, one page each, and at most every `FRESH_SECONDS`. Kinds that this
cluster does not serve, or that we may not read, are said to be so and asked for again only after a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainsweep.core.fields import condition, mapping, name_of, seconds, text, uid_of
from trainsweep.core.model import SweepView, Unreadable
from trainsweep.core.pending.containers import CREATING, statuses
from trainsweep.core.pending.demand import Demand
from trainsweep.core.pending.node_supply import promised_claims
from trainsweep.core.pending.placement import unplaced
from trainsweep.core.pending.situation import Object as Body
from trainsweep.core.pending.situation import Situation, deleting, is_head, phase
from trainsweep.runtime.kube import (
    EVENT,
    NODE_CLAIM,
    RESOURCE_QUOTA,
    WORKLOAD,
    WORKLOAD_OLD,
    Denied,
    Kind,
    Kube,
    KubeError,
    NotFound,
    Object,
)

FRESH_SECONDS = 15.0
ABSENT_SECONDS = 600.0
"""How long a kind that is not served, or denied, is not asked for again."""
STUCK_SECONDS = 30.0
"""A pod that is pending for this long has its Events read."""
EVENTS_OF = 3
"""Pods whose Events are read: when many are stuck, they are stuck for one reason."""
CLAIMS = 3
JOB_UID = "kueue.x-k8s.io/job-uid"


@dataclass(frozen=True)
class Bodies:
    """The attempt's own objects, as they were read in this pass."""

    ray_job: Object | None = None
    ray_cluster: Object | None = None
    pods: Sequence[Object] = ()
    refusal: str = ""
    store: str = ""
    demand: Demand | None = None


def since(pod: Body) -> float | None:
    """Since when a pod waits for what it waits for now: for a node, or for its containers."""
    scheduled = condition(pod, "PodScheduled")
    when = seconds(mapping(scheduled).get("lastTransitionTime"))
    return when if when is not None else seconds(mapping(pod.get("metadata")).get("creationTimestamp"))


def stuck(pods: Sequence[Body], now: float, after: float = STUCK_SECONDS) -> list[Body]:
    """Pods whose Events may say more than they do themselves, the head first."""
    found = []
    for pod in pods:
        began = since(pod)
        if phase(pod) != "Pending" or deleting(pod) or began is None or now - began < after:
            continue
        if all(text(mapping(mapping(c.get("state")).get("waiting")).get("reason"), 128) in CREATING
               for c in statuses(mapping(pod.get("status")))):  # fmt: skip
            found.append(pod)
    without_node = {name_of(p) for p in unplaced(Situation(now, pods=tuple(found)))}
    return sorted(found, key=lambda p: (name_of(p) not in without_node, not is_head(p), name_of(p)))[:EVENTS_OF]


class Waiting:
    """Reads what explains a wait."""

    def __init__(self, kube: Kube, now: Callable[[], float] = time.time, *, patient: bool = True) -> None:
        """Impatient, it asks for the Events of every pending pod at once: a person waits for the answer."""
        self._kube, self._now, self._after = kube, now, STUCK_SECONDS if patient else 0.0
        self._absent: dict[Kind, tuple[float, str]] = {}
        self._kept: dict[str, tuple[float, Situation]] = {}

    def forget(self, uid: str) -> None:
        """The sweep is gone, or nothing waits any more."""
        self._kept.pop(uid, None)

    async def situation(self, sweep: SweepView, bodies: Bodies) -> Situation:
        """The situation of an attempt; it never raises: what cannot be read is said in it."""
        now = self._now()
        seen = Situation(
            now=now,
            status=sweep.status,
            refusal=bodies.refusal,
            ray_job=bodies.ray_job,
            ray_cluster=bodies.ray_cluster,
            pods=tuple(bodies.pods),
            store=bodies.store,
            demand=bodies.demand,
        )
        work = self._work(seen)
        if not work:
            self.forget(sweep.uid)
            return seen
        kept = self._kept.get(sweep.uid)
        if kept is None or not 0 <= now - kept[0] < FRESH_SECONDS:
            kept = now, await self._more(seen, sweep.namespace, work)
            self._kept[sweep.uid] = kept
        more = kept[1]
        return replace(
            seen,
            events=more.events,
            workloads=more.workloads,
            quotas=more.quotas,
            node_claims=more.node_claims,
            unread=more.unread,
        )

    def _work(self, seen: Situation) -> set[str]:
        """What has to be asked for."""
        work: set[str] = set()
        job, now = mapping(seen.ray_job), seen.now
        if seen.ray_job is not None and mapping(job.get("spec")).get("suspend") is True:
            work.add("workload")
        failing = mapping(condition(seen.ray_cluster, "ReplicaFailure")).get("status") == "True"
        if seen.refusal or failing:
            work.add("quota")
        made = seconds(mapping(job.get("metadata")).get("creationTimestamp"))
        old = made is not None and now - made > self._after
        if old and seen.ray_job is not None and not seen.pods and "workload" not in work:
            work |= {"owners", "quota"}
        if stuck(seen.pods, now, self._after):
            work.add("pods")
        return work

    async def _more(self, seen: Situation, namespace: str, work: set[str]) -> Situation:
        unread: dict[str, str] = {}

        async def listed(kind: Kind, namespace: str, *, labels: str = "", fields: str = "") -> list[Object]:
            found = await self._listed(kind, namespace, labels=labels, fields=fields)
            if isinstance(found, Unreadable):
                unread[kind.kind] = found.message
                return []
            return found

        events: list[Object] = []
        workloads: list[Object] = []
        quotas: list[Object] = []
        claims: list[Object] = []
        if "workload" in work:
            selector = f"{JOB_UID}={uid_of(seen.ray_job)}"
            workloads = await listed(WORKLOAD, namespace, labels=selector)
            if "not served" in unread.get("Workload", ""):
                unread.pop("Workload")
                workloads = await listed(WORKLOAD_OLD, namespace, labels=selector)
        if "quota" in work:
            quotas = await listed(RESOURCE_QUOTA, namespace)
        about: list[Any] = stuck(seen.pods, seen.now, self._after) if "pods" in work else []
        if "owners" in work:
            about += [body for body in (seen.ray_job, seen.ray_cluster) if body is not None]
        for body in about:
            events += await listed(EVENT, namespace, fields=f"involvedObject.uid={uid_of(body)}")
        for name in promised_claims(replace(seen, events=tuple(events)))[:CLAIMS]:
            # Karpenter's Events on NodeClaims, which lie in no namespace, are in `default`; they outlive the NodeClaim.
            fields = f"involvedObject.kind={NODE_CLAIM.kind},involvedObject.name={name}"
            events += await listed(EVENT, "default", fields=fields)
            claims += await listed(NODE_CLAIM, "", fields=f"metadata.name={name}")
        return replace(
            seen,
            events=tuple(events),
            workloads=tuple(workloads),
            quotas=tuple(quotas),
            node_claims=tuple(claims),
            unread=unread,
        )

    async def _listed(self, kind: Kind, namespace: str, *, labels: str, fields: str) -> list[Object] | Unreadable:
        absent = self._absent.get(kind)
        if absent is not None and 0 <= self._now() - absent[0] < ABSENT_SECONDS:
            return Unreadable(absent[1])
        why = ""
        try:
            found, _ = await self._kube.page(kind, namespace, labels=labels, fields=fields, limit=100)
        except NotFound:
            why = f"{kind.plural}.{kind.group or 'core'}/{kind.version} is not served here"
        except Denied:
            why = f"no right to list {kind.plural}{f' in {namespace}' if namespace else ''}"
        except KubeError as error:
            return Unreadable(error.message or type(error).__name__)
        else:
            return found
        if kind is not EVENT:
            self._absent[kind] = self._now(), why
        return Unreadable(why)
