"""Layer NodeSupply: what Karpenter and cluster-autoscaler say of the pods that no node has taken."""

from __future__ import annotations

import re

from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import condition, event_time, mapping, name_of, seconds, text
from trainsweep.core.pending.ec2 import code_of
from trainsweep.core.pending.placement import unplaced
from trainsweep.core.pending.situation import Answer, Finding, Object, Situation, Unread, called, cut, live

NOT_REGISTERED_AFTER = 300.0
"""Seconds after its launch in which a node has normally registered (measured: 40 s; Karpenter gives up after 900 s)."""
RECENT = 900.0
"""How long an Event of a NodeClaim that is gone still counts: Karpenter tries again at once, without a word on the pod."""

_NOMINATED = re.compile(r"nodeclaim/([a-z0-9.-]+)")
_POOL = re.compile(r'nodepool "([^"]+)"|NodePool=([A-Za-z0-9.-]+)')
_KARPENTER: tuple[tuple[str, Why, str, str], ...] = (
    # the last reason for a pool is what keeps it: most telling first
    ("exceed limits for nodepool", Why.NODE_POOL_LIMIT, "NodePool {pool} is at its limits",
     "wait for pods to end, or have the NodePool's limits raised"),
    ("node limits have been exhausted", Why.NODE_POOL_LIMIT, "NodePool {pool} has all the nodes that it may have",
     "wait for pods to end, or have the NodePool's limits raised"),
    ("compatible reserved offerings are available", Why.RESERVATION_FULL, "the capacity reservation is full",
     "wait until the reservation has room, or allow on-demand in the nodeSelector"),
    ("had a required offering", Why.NO_OFFERING, "no instance type with room is offered in an allowed zone and capacity "
     "type (or it was sold out a moment ago)", "allow more zones, instance types or capacity types"),
    ("Dynamic Resource Allocation", Why.CLAIMS_NOT_SUPPORTED, "Karpenter does not provision for ResourceClaims",
     "use the device plugin's resources (nvidia.com/gpu), or a node group that is there already"),
    ("did not tolerate taint", Why.NODE_POOL_TAINT, "NodePool {pool} has a taint that the pod does not tolerate",
     "add the toleration, or use the class for this pool"),
    ("no instance type has enough resources", Why.NO_INSTANCE_TYPE, "no instance type of NodePool {pool} holds the pod "
     "and its daemonsets", "ask for less a pod: a node's allocatable is smaller than the machine"),
    ("filtered out all", Why.NO_INSTANCE_TYPE, "NodePool {pool} has no instance type left by its requirements",
     "ask the platform team to widen the NodePool's requirements"),
    ("incompatible", Why.NO_INSTANCE_TYPE, "NodePool {pool} does not fit the pod's requirements",
     "check nodeSelector: no NodePool makes nodes with these labels"),
)  # fmt: skip


def look(seen: Situation) -> Answer:
    """The newest word of a node supplier on the first pods without a node; a failed launch outweighs a new promise."""
    pods = unplaced(seen)
    if not pods:
        return None
    name = called(pods[0], len(pods), len(live(seen.pods)))
    found = None
    for pod in pods[:3]:
        if found := _of_pod(seen, pod):
            break
    if found is not None:
        why, words, cure, passing = found
        return Finding(Layer.NODE_SUPPLY, why, cut(f"{name}: {words}"), cure, passing)
    if why_not := seen.unread.get("Event"):
        return Unread(Layer.NODE_SUPPLY, f"Event: {why_not}")
    return None


Said = tuple[Why, str, str, bool]


def _of_pod(seen: Situation, pod: Object) -> Said | None:
    events = seen.of({**pod, "kind": "Pod"})
    promised = [
        match[1]
        for e in events
        if e.get("reason") == "Nominated" and (match := _NOMINATED.search(text(e.get("message"))))
    ]
    if failed := _failed_launch(seen, promised):
        return failed
    for event in events:
        reason, words = text(event.get("reason"), 64), text(event.get("message"), 8192)
        if reason == "Nominated":
            return _claim(seen, promised[0], event) if promised else None
        if reason == "FailedScheduling" and _source(event).startswith("karpenter"):
            return _karpenter(words)
        if reason in ("NotTriggerScaleUp", "TriggeredScaleUp", "FailedScaleUp"):
            return _autoscaler(reason, words)
    return None


def _source(event: Object) -> str:
    return text(mapping(event.get("source")).get("component"), 64) or text(event.get("reportingComponent"), 64)


def _failed_launch(seen: Situation, promised: list[str]) -> Said | None:
    """Karpenter tells of a failed launch on the NodeClaim, which it then deletes, and tells the pod nothing."""
    newest: tuple[float, Said] | None = None
    for event in seen.events:
        about = mapping(event.get("involvedObject"))
        if about.get("kind") != "NodeClaim" or about.get("name") not in promised:
            continue
        when, words = event_time(event), text(event.get("message"))
        if when and seen.now - when > RECENT:
            continue
        said = None
        if event.get("reason") == "InsufficientCapacityError" or code_of(words):
            code = code_of(words)
            said = (*code, False) if code else (
                Why.INSUFFICIENT_CAPACITY, cut(words, 300), "allow more instance types or zones, or wait", False)  # fmt: skip
        elif event.get("reason") == "NodeClassNotReady":
            said = (
                Why.NODE_CLASS_NOT_READY,
                cut(words, 300),
                "ask the platform team to look at the EC2NodeClass",
                False,
            )
        if said is not None and (newest is None or when > newest[0]):
            newest = when, said
    return newest[1] if newest else None


def _claim(seen: Situation, name: str, nominated: Object) -> Said:
    """The state of a NodeClaim that was promised to the pod."""
    claim = next((c for c in seen.node_claims if name_of(c) == name), None)
    if claim is None:
        why = seen.unread.get("NodeClaim")
        note = f"; not readable: {why}" if why else ""
        return Why.NODE_STARTING, f"Karpenter has promised it NodeClaim {name}{note}", "", True
    started = seconds(mapping(claim.get("metadata")).get("creationTimestamp")) or event_time(nominated)
    age = max(0, int(seen.now - started))
    for kind in ("Launched", "Registered", "Initialized"):
        state = mapping(condition(claim, kind))
        if state.get("status") == "True":
            continue
        reason, words = text(state.get("reason"), 64), cut(text(state.get("message")), 300)
        if kind == "Launched":
            if code := code_of(f"{reason} {words}"):
                return (*code, False)
            if reason and reason not in ("AwaitingReconciliation", "LaunchPending"):
                return (
                    Why.LAUNCH_FAILED,
                    f"NodeClaim {name}: {reason}: {words}",
                    "see the NodeClaim's conditions",
                    False,
                )
        elif kind == "Registered" and age > NOT_REGISTERED_AFTER:
            text_ = f"NodeClaim {name} was launched {age} s ago and its node has not joined the cluster"
            return Why.NODE_NOT_REGISTERED, text_, "have the node's role, subnets and user data checked", False
        elif kind == "Initialized" and reason == "ResourceNotRegistered":
            return (
                Why.RESOURCE_NOT_REGISTERED,
                f"NodeClaim {name}: {words}",
                "is the device plugin running there?",
                False,
            )
        elif kind == "Initialized" and reason and age > NOT_REGISTERED_AFTER:
            return Why.NODE_NOT_READY, f"NodeClaim {name}: {reason}: {words}", "see the node's conditions", False
        return Why.NODE_STARTING, f"NodeClaim {name} is on its way for {age} s ({kind} is not True yet)", "", True
    return Why.NODE_STARTING, f"the node of NodeClaim {name} is ready for it", "", True


def _karpenter(words: str) -> Said:
    parts = words.split(";")
    for mark, why, ours, cure in _KARPENTER:
        if mark in words:
            part = next((p for p in parts if mark in p), words)
            pool = next((a or b for a, b in (_POOL.findall(part) or _POOL.findall(words))), "")
            told = ours.format(pool=pool).replace("  ", " ")
            return why, f"Karpenter: {told}", cure, False
    return Why.NO_INSTANCE_TYPE, f"Karpenter: {cut(words, 300)}", "see the pod's Events", False


def _autoscaler(reason: str, words: str) -> Said:
    """What cluster-autoscaler says; it names counts of node groups, not the groups."""
    if reason == "TriggeredScaleUp":
        return Why.SCALING_UP, f"cluster-autoscaler: {cut(words, 300)}", "", True
    if reason == "FailedScaleUp":
        code = code_of(words)
        return (
            (*code, False)
            if code
            else (Why.SCALE_UP_FAILED, f"cluster-autoscaler: {cut(words, 300)}", "see its log", False)
        )
    told = f"cluster-autoscaler adds no node: {cut(words.partition(': ')[2] or words, 300)}"
    if "max node group size reached" in words:
        return Why.NODE_GROUP_MAXIMUM, told, "wait for pods to end, or have the node group's maximum raised", False
    if "in backoff after failed scale-up" in words:
        return (
            Why.SCALE_UP_BACKOFF,
            told,
            "the last scale-up failed, often for capacity or an EC2 quota: see its log",
            False,
        )
    return Why.NO_SCALE_UP, told, "no node group would take the pod: check nodeSelector, tolerations and size", False


def promised_claims(seen: Situation) -> list[str]:
    """NodeClaims that Events promise to the pods without a node, the newest first: what a reader should fetch."""
    names: list[str] = []
    for pod in unplaced(seen)[:3]:
        for event in seen.of({**pod, "kind": "Pod"}, "Nominated"):
            names += [n for n in _NOMINATED.findall(text(event.get("message"))) if n not in names]
    return names
