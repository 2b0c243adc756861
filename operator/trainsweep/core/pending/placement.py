"""Layer Placement: the scheduler's own account of why no node takes a pod.

A node is counted under the first of its filters that fails. Those that fail last, for want of a resource, would take
the pod otherwise: so the kind that stands nearest to fitting names the reason, and the message lists all.
"""

from __future__ import annotations

import re

from trainsweep.api.conditions import Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import condition, mapping, text
from trainsweep.core.pending.situation import Answer, Finding, Object, Situation, called, cut, live, phase

_NODES = re.compile(r"^(\d+)/(\d+) nodes are available: (.*)$", re.DOTALL)
_TAIL = re.compile(
    r"[.;,]?\s*(?:preemption: |No preemption victims|Preemption is not helpful|no new claims to).*$", re.DOTALL
)
_PIECE = re.compile(r",\s+(?=\d+ )")
_LACK = re.compile(r"Insufficient ([^\s,]+)")

_KINDS: tuple[tuple[str, Why, str, str], ...] = (
    # nearest to fitting first: (words of the scheduler, reason, our words, cure)
    ("Insufficient ", Why.INSUFFICIENT_RESOURCES, "without enough {what}",
     "wait for a node that is free, ask for less a worker, or have nodes added"),
    ("Too many pods", Why.TOO_MANY_PODS, "full of pods", "have nodes added"),
    ("cannot allocate all claims", Why.RESOURCE_CLAIMS, "without a device for the resource claims",
     "check the ResourceClaims: no device of that class is free"),
    ("free ports", Why.INSUFFICIENT_RESOURCES, "without the free port", "remove hostPort from the pod template"),
    ("volume", Why.VOLUME_UNAVAILABLE, "out of reach of the volume",
     "use a volume of the nodes' zone, or a storage class that binds on first use"),
    ("topology spread", Why.TOPOLOGY_SPREAD, "against the topology spread", "relax topologySpreadConstraints"),
    ("pod affinity", Why.TOPOLOGY_SPREAD, "against the pod affinity", "relax the pod affinity"),
    ("pod anti-affinity", Why.TOPOLOGY_SPREAD, "against the pod anti-affinity", "relax the pod anti-affinity"),
    ("node affinity/selector", Why.NODE_SELECTOR, "outside nodeSelector or node affinity",
     "check nodeSelector: which nodes carry its labels?"),
    ("untolerated taint", Why.UNTOLERATED_TAINT, "with a taint that is not tolerated{what}",
     "add the toleration under cluster.workerGroups[].tolerations or cluster.head.tolerations"),
    ("unschedulable", Why.UNTOLERATED_TAINT, "cordoned", "uncordon the nodes, or have nodes added"),
)  # fmt: skip
_WHOLE: tuple[tuple[str, Why, str], ...] = (
    (
        "unbound immediate PersistentVolumeClaims",
        Why.VOLUME_UNAVAILABLE,
        "bind the claim: does its StorageClass exist?",
    ),
    ("persistentvolumeclaim", Why.VOLUME_UNAVAILABLE, "create the PersistentVolumeClaim that the pod template names"),
    ("Resource Allocation", Why.RESOURCE_CLAIMS, "check the ResourceClaims of the pod template"),
    ("resourceclaim", Why.RESOURCE_CLAIMS, "create the ResourceClaim that the pod template names"),
    ("no nodes available to schedule pods", Why.NO_NODES, "have nodes added to the cluster"),
)


def unplaced(seen: Situation) -> list[Object]:
    """Pods that no node has taken, the head first."""
    found = []
    for pod in live(seen.pods):
        scheduled = condition(pod, "PodScheduled")
        if phase(pod) == "Pending" and scheduled is not None and scheduled.get("status") == "False":
            found.append(pod)
    return found


def look(seen: Situation) -> Answer:
    """The first pod without a node."""
    pods = unplaced(seen)
    if not pods:
        return None
    pod = pods[0]
    scheduled = mapping(condition(pod, "PodScheduled"))
    said, name = text(scheduled.get("message")), called(pod, len(pods), len(live(seen.pods)))
    if scheduled.get("reason") == "SchedulingGated":
        words = f"{name}: its scheduling gates are not removed{f' ({cut(said, 200)})' if said else ''}"
        return Finding(
            Layer.PLACEMENT,
            Why.SCHEDULING_GATED,
            words,
            "whoever set the gates has to remove them: Kueue, or a webhook",
        )
    why, words, cure = account(said)
    return Finding(Layer.PLACEMENT, why, f"{name}: {words}", cure)


def account(said: str) -> tuple[Why | Reason, str, str]:
    """Reason, words and cure of a scheduler's message."""
    found = _NODES.match(said.strip())
    body = _TAIL.sub("", found[3]).strip().rstrip(".") if found else said
    counted: list[tuple[int, int, str]] = []  # (rank, nodes, piece)
    for piece in _PIECE.split(body) if found else []:
        number, _, rest = piece.strip().partition(" ")
        if number.isdigit():
            rank = next((i for i, kind in enumerate(_KINDS) if kind[0] in rest), len(_KINDS))
            counted.append((rank, int(number), rest))
    if not counted or min(rank for rank, *_ in counted) == len(_KINDS):
        for mark, why, cure in _WHOLE:
            if mark in body:
                return why, cut(said), cure
        if found and found[2] == "0":
            return Why.NO_NODES, "the cluster has no nodes", "have nodes added to the cluster"
        return Reason.UNSCHEDULABLE, cut(said) or "no node takes it", "see the pod's Events"
    counted.sort(key=lambda item: (item[0], -item[1]))
    kind = _KINDS[counted[0][0]]
    told = ", ".join(f"{number} {_ours(rank, rest)}" for rank, number, rest in counted)
    assert found is not None  # noqa: S101  # what is counted was found
    return kind[1], f"{found[1]} of {found[2]} nodes fit: {told}", kind[3]


def _ours(rank: int, rest: str) -> str:
    """A scheduler's words on some nodes, shorter."""
    if rank == len(_KINDS):
        return cut(rest, 120)
    mark, _, words, _ = _KINDS[rank]
    if mark == "Insufficient ":
        lack = _LACK.search(rest)
        return words.format(what=lack[1] if lack else "resources")
    if mark == "untolerated taint":
        at = rest.find("{")
        return words.format(what=f" {rest[at:]}" if at >= 0 else "")
    return words
