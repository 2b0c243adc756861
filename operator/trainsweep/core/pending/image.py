"""Layer Image: what keeps the containers of a placed pod from starting: image, configuration, volumes, their own end."""

from __future__ import annotations

from trainsweep.api.conditions import Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.core.fields import mapping, text
from trainsweep.core.pending.containers import container_problem, event_problem, kubelet_rejection
from trainsweep.core.pending.placement import unplaced
from trainsweep.core.pending.situation import Answer, Finding, Object, Situation, called, cut, live, phase

_NOT_FOUND = ("not found", "manifest unknown", "does not exist", "name unknown")
_DENIED = ("unauthorized", "denied", "authentication required", "no basic auth credentials", "403 forbidden")
_MOUNTS = {
    "FailedMount": (Why.MOUNT_FAILED, "create what the volume names, in the sweep's namespace"),
    "FailedAttachVolume": (Why.MOUNT_FAILED, "the volume cannot be attached: is it in use in another zone or node?"),
    "FailedCreatePodSandBox": (Why.SANDBOX_FAILED, "the node cannot set up the pod's network: are addresses left?"),
}


def look(seen: Situation) -> Answer:
    """The first placed pod whose containers do not start; the gravest kind first."""
    placed = [p for p in live(seen.pods) if p not in unplaced(seen)]
    found = [(pod, said) for pod in placed if (said := _said(seen, pod)) is not None]
    if not found:
        return None
    firm = [item for item in found if not item[1][3]] or found
    pod, (why, words, cure, passing) = firm[0]
    same = sum(1 for _, said in found if said[0] == why)
    return Finding(Layer.IMAGE, why, f"{called(pod, same, len(live(seen.pods)))}: {cut(words)}", cure, passing)


Said = tuple[Why | Reason, str, str, bool]


def _said(seen: Situation, pod: Object) -> Said | None:
    status = mapping(pod.get("status"))
    if phase(pod) == "Succeeded":
        return None
    if rejected := kubelet_rejection(status):
        return Why.REJECTED_BY_NODE, rejected, "KubeRay makes the pod again; if it goes on, drain that node", False
    layer, reason, words = container_problem(status)
    if layer == "Image":
        return _image(reason, words)
    if layer == "Config":
        return Why.CONFIG_MISSING, words, "create the Secret or ConfigMap, or correct its name", False
    if layer:
        return Reason.CONTAINER_FAILED, words, "the container's log says more", False
    if phase(pod) != "Pending":
        return None
    _, reason, words = event_problem(seen.of({**pod, "kind": "Pod"}))
    if reason:
        why, cure = _MOUNTS.get(reason, (Reason.CONTAINER_FAILED, "see the pod's Events"))
        return why, f"{reason}: {words}", cure, False
    pulling = seen.of({**pod, "kind": "Pod"}, "Pulling", "Pulled")
    if pulling and pulling[0].get("reason") == "Pulling":
        return Why.IMAGE_PULLING, text(pulling[0].get("message")), "", True
    return None


def _image(reason: str, words: str) -> Said:
    lower = words.lower()
    if reason == "InvalidImageName":
        return Why.IMAGE_NAME_INVALID, f"{reason}: {words}", "correct spec.training.image", False
    if reason == "ErrImageNeverPull":
        return (
            Why.IMAGE_NOT_FOUND,
            words,
            "correct spec.training.image, or the pull policy: no node ever pulls it",
            False,
        )
    if any(mark in lower for mark in _NOT_FOUND):
        return Why.IMAGE_NOT_FOUND, words, "correct spec.training.image: no such image or tag", False
    if any(mark in lower for mark in _DENIED):
        cure = "set spec.training.imagePullSecrets, or let the nodes' role pull from the registry"
        return Why.IMAGE_PULL_DENIED, words, cure, False
    return Reason.IMAGE_PULL_FAILED, words, "the registry may be out of reach for a moment: it is tried again", False
