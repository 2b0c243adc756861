"""Labels and annotations that operator, driver and tools agree on: the one list."""

from __future__ import annotations

PREFIX = "trainsweep.io"

MANAGED = "trainsweep.io/managed"
"""`true` on everything that a sweep owns: RayJob, pods, hold."""
SWEEP_NAME = "trainsweep.io/sweep"
SWEEP_UID = "trainsweep.io/sweep-uid"
"""Identity of the owner. Owner references are no proof: a foreground delete strips ours."""
ATTEMPT = "trainsweep.io/attempt"
QUEUE = "kueue.x-k8s.io/queue-name"

CONTROL = "trainsweep.io/control"
"""On the head pod: what the operator says to the driver (`contract.documents.Control`)."""
SWEEP = "trainsweep.io/sweep-file"
"""On the head pod: what the driver runs (`contract.documents.SweepFile`)."""
DIGEST = "trainsweep.io/digest"
"""On the RayJob: digest of what was rendered."""
FORCE_RELEASE = "trainsweep.io/force-release"
"""On the TrainSweep, by a person: release without proof."""
RETRY_NOW = "trainsweep.io/retry-now"
"""On the TrainSweep, by a person or Argo CD's action `retry`: a time; the pause before the next attempt ends then."""

CONTROL_DIR = "/etc/trainsweep/control"
SWEEP_FILE = "sweep.json"
CONTROL_FILE = "control.json"
SOURCE_DIR = "/etc/trainsweep/source"
PACKAGE_DIR = "/opt/trainsweep"
"""Where an image or a class's overlay may put the `trainjobs` package; it is on PYTHONPATH."""

ENV_SWEEP_FILE = "TRAINSWEEP_SWEEP_FILE"
ENV_CONTROL_FILE = "TRAINSWEEP_CONTROL_FILE"
ENV_NAMESPACE = "TRAINSWEEP_NAMESPACE"
ENV_POD_NAME = "TRAINSWEEP_POD_NAME"


def identity(name: str, uid: str, attempt: int) -> dict[str, str]:
    """Labels of everything that belongs to one attempt of a sweep."""
    return {MANAGED: "true", SWEEP_NAME: name, SWEEP_UID: uid, ATTEMPT: str(attempt)}
