"""What is known of an attempt that waits: raw objects and Events, and what could not be read; and what a layer says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainsweep.api.conditions import Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.api.status import TrainSweepStatus
from trainsweep.core.fields import event_time, mapping, name_of, strings, text, uid_of
from trainsweep.core.pending.demand import Demand

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Situation:
    """Objects as the API server gives them; nothing of it is trusted to be well-formed."""

    now: float
    status: TrainSweepStatus = field(default_factory=TrainSweepStatus)
    """Of the sweep."""
    refusal: str = ""
    """What the API server said when it refused the RayJob; "" where it took it."""
    ray_job: Object | None = None
    ray_cluster: Object | None = None
    pods: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()
    """Events of the RayJob, its cluster, the stuck pods and their NodeClaims."""
    workloads: tuple[Object, ...] = ()
    """Kueue's, of the RayJob."""
    quotas: tuple[Object, ...] = ()
    """ResourceQuotas of the namespace."""
    node_claims: tuple[Object, ...] = ()
    """Karpenter's, those that the stuck pods were promised."""
    autoscaler_log: str = ""
    """Tail of the log of Ray's autoscaler, where it was read."""
    store: str = ""
    """Why the run's store cannot be used, "" where it can or was not asked."""
    demand: Demand | None = None
    """None where the sweep's class is not known."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Kind to why it could not be read, such as `Workload: no right to list it`."""

    def of(self, body: Object | None, *reasons: str) -> list[Object]:
        """The Events of an object, newest first; with reasons only those."""
        uid, name = uid_of(body), name_of(body)
        kind = text(mapping(body).get("kind"), 64)
        found = [e for e in self.events if _about(e, uid, kind, name) and (not reasons or e.get("reason") in reasons)]
        return sorted(found, key=event_time, reverse=True)


def _about(event: Object, uid: str, kind: str, name: str) -> bool:
    about = mapping(event.get("involvedObject"))
    if about.get("uid"):
        return bool(uid) and about.get("uid") == uid
    return bool(name) and about.get("name") == name and (not kind or about.get("kind") in (kind, None))


@dataclass(frozen=True)
class Finding:
    """Why a layer is not satisfied."""

    layer: Layer
    reason: Why | Reason
    message: str
    """The short cause, in the layer's own words where they are short."""
    cure: str = ""
    """What to do next; "" where only patience helps."""
    passing: bool = False
    """It passes by itself: no Event is worth it."""

    @property
    def words(self) -> str:
        """Cause and cure in one line."""
        return f"{self.message}; {self.cure}" if self.cure else self.message


@dataclass(frozen=True)
class Unread:
    """A layer that cannot be judged: what could not be read, and why."""

    layer: Layer
    why: str


Answer = Finding | Unread | None
"""What a layer says: why it is not satisfied, that it cannot be read, or that nothing keeps the sweep here."""


class State(StrEnum):
    """Of a layer in the chain."""

    SATISFIED = "Satisfied"
    WAITING = "Waiting"
    UNREADABLE = "NotReadable"


def is_head(pod: Object) -> bool:
    """Whether a pod is the head."""
    return strings(mapping(pod.get("metadata")).get("labels")).get("ray.io/node-type") == "head"


def deleting(pod: Object) -> bool:
    """Whether a pod is on its way out."""
    return mapping(pod.get("metadata")).get("deletionTimestamp") is not None


def live(pods: Iterable[Object]) -> list[Object]:
    """Pods that are not being deleted, the head first, then by name."""
    return sorted((p for p in pods if not deleting(p)), key=lambda p: (not is_head(p), name_of(p)))


def phase(pod: Object) -> str:
    """Phase of a pod."""
    return text(mapping(pod.get("status")).get("phase"), 32)


def called(pod: Object, stuck: int, total: int) -> str:
    """How a message names a pod: its part, its name, and how many of how many are like it."""
    part = "head" if is_head(pod) else "worker"
    return f"{part} {name_of(pod)}{f' ({stuck} of {total} pods)' if total > 1 else ''}"


def cut(words: str, limit: int = 400) -> str:
    """One line, not longer than the limit."""
    line = " ".join(words.split())
    return line if len(line) <= limit else f"{line[: limit - 4]} ..."
