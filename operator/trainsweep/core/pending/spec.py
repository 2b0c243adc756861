"""Layer Spec: what was written is refused, by the class, by our own checks or by KubeRay; or a name is taken."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.pending import Layer
from trainsweep.core.fields import mapping, text
from trainsweep.core.pending.situation import Answer, Finding, Situation, cut

_CURES: dict[str, str] = {
    Reason.INVALID_SPEC: "correct the field that is named",
    Reason.CLASS_NOT_FOUND: "name a class that exists in spec.className, or ask the platform team",
    Reason.LIMIT_EXCEEDED: "stay below the class's ceiling, or ask the platform team to raise it",
    Reason.NOT_ALLOWED: "use a name that the class allows, or ask the platform team to allow it",
    Reason.STORAGE_NOT_ALLOWED: "use a prefix that the class allows, or ask the platform team to allow it",
    Reason.NAME_CONFLICT: "delete the other RayJob, or create the sweep under another name",
    Reason.KUBERAY_REFUSED: "correct what KubeRay names",
}


def refused(reason: Reason, message: str) -> Finding:
    """The finding of a refusal."""
    return Finding(Layer.SPEC, reason, cut(message, 800) or str(reason), _CURES[reason])


def look(seen: Situation) -> Answer:
    """Admitted is False, or KubeRay found the RayJob invalid."""
    admitted = next((c for c in seen.status.conditions if c.type == Condition.ADMITTED), None)
    if admitted is not None and admitted.status == "False" and admitted.reason in _CURES:
        return refused(Reason(admitted.reason), admitted.message)
    status = mapping(mapping(seen.ray_job).get("status"))
    if status.get("jobDeploymentStatus") == "ValidationFailed":
        return refused(Reason.KUBERAY_REFUSED, text(status.get("message")) or "KubeRay says ValidationFailed")
    for event in seen.of(seen.ray_job, "InvalidRayJobSpec", "InvalidRayJobMetadata", "InvalidRayJobStatus"):
        return refused(Reason.KUBERAY_REFUSED, text(event.get("message")))
    return None
