"""What one pass sees and what it wants done: the words between observe(), decide() and apply().

Times are Unix seconds (UTC). `None` means absent; what could not be read is said by `Unreadable`, never by None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from trainsweep.api.status import TrainSweepStatus
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract.documents import Best, Control, End, LastWord, MissingFile, Outcome, Progress, TrialCounts
from trainsweep.core.pending.situation import Situation
from trainsweep.render.kuberay import KubeRay

FINALIZER = "trainsweep.io/settlement"


@dataclass(frozen=True)
class Unreadable:
    """Something that may exist but could not be read. `denied`: refused (401, 403), not a failure of the way."""

    message: str
    denied: bool = False


# ---------------------------------------------------------------------------------------------------- what is seen


@dataclass(frozen=True)
class SweepView:
    """The TrainSweep as read in this pass."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    spec: Mapping[str, Any]
    status: TrainSweepStatus
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    deletion_requested_at: float | None = None


@dataclass(frozen=True)
class ClassView:
    """The TrainSweepClass that the sweep names, or the default one."""

    name: str
    uid: str
    generation: int
    spec: TrainSweepClassSpec


@dataclass(frozen=True)
class RayJobView:
    """A RayJob found under an attempt's deterministic name."""

    name: str
    uid: str
    sweep_uid: str
    """Value of the sweep-uid label; "" where it is not ours."""
    digest: str
    """The digest annotation of what was rendered."""
    deployment_status: str = ""
    job_status: str = ""
    reason: str = ""
    message: str = ""
    last_word: LastWord | None = None
    """The driver's last line, from the tail of the log that KubeRay copies into the message."""
    cluster: str = ""
    """Name of its RayCluster, "" before KubeRay made one."""
    ended_at: float | None = None
    ttl_seconds: int = 0
    active_deadline_seconds: int | None = None
    started_at: float | None = None
    suspended: bool = False
    deleting: bool = False
    has_hold_owner: bool = False


@dataclass(frozen=True)
class ClusterView:
    """The attempt's RayCluster."""

    name: str
    state: str = ""
    head_ready: bool | None = None
    """Condition HeadPodReady; None where it is not said."""
    head_reason: str = ""
    head_message: str = ""
    provisioned: bool = False
    replica_failure: str = ""
    """Message of condition ReplicaFailure when True: the API server's own words on a refused pod."""
    deleting: bool = False
    uid: str = ""
    orphan: bool = False
    """No RayJob owns it, so that nothing but us will ever delete it: its RayJob was deleted with `--cascade=orphan`."""


@dataclass(frozen=True)
class PodView:
    """One pod of the attempt (label ray.io/cluster)."""

    name: str
    uid: str
    head: bool
    phase: str
    ready: bool = False
    deleting: bool = False
    problem_layer: str = ""
    """Placement, Image, Config or Container where the pod says why it does not run."""
    problem_reason: str = ""
    problem_message: str = ""
    gpus: int = 0
    cpus: int = 0
    """Requests of all its containers, rounded up to whole CPUs."""
    started_at: float | None = None
    """When a node took it; None before."""
    ended_at: float | None = None
    """When its last container ended, where all of them have."""
    exit_reason: str = ""
    """OOMKilled, Error, Evicted, ... of the Ray container once terminated."""
    control: Control | None = None
    """The control annotation as it stands on the head pod."""


@dataclass(frozen=True)
class HoldView:
    """The TrainSweepHold of an attempt."""

    name: str
    uid: str


@dataclass(frozen=True)
class InLine:
    """Another sweep of the class, as a list shows it."""

    name: str
    """namespace/name."""
    namespace: str
    uid: str
    ticket: int = 0
    """The last one drawn; 0 where it has drawn none."""
    gpus: int = 0
    waits: bool = False
    """It waits with its ticket."""
    holds: bool = False
    """It has its GPUs: launched, and not let go."""
    undecided: bool = False
    """It may be before us, but has drawn no ticket yet."""
    gpu_seconds: int = 0


class Proof(StrEnum):
    """Result of the second look."""

    PERSISTED = "Persisted"
    MISSING = "Missing"
    INVALID = "Invalid"  # the receipt contradicts what is committed, or is no valid receipt of this attempt
    UNKNOWN = "Unknown"  # could not be read: never counted as missing


@dataclass(frozen=True)
class Settlement:
    """What is known of an attempt's checkpoints: from the driver's receipt, or from an inventory without one."""

    attempt_id: str
    source: str
    """"Receipt" or "Inventory"."""
    digest: str
    """Digest of the receipt, "" for an inventory."""
    proof: Proof
    reason: str = ""
    message: str = ""
    denied: bool = False
    """With proof Unknown: the store refused us for good (wrong credentials, denied, no such bucket)."""
    required: int = 0
    verified: int = 0
    files: int = 0
    bytes: int = 0
    missing: tuple[MissingFile, ...] = ()
    advice: str = ""
    """Why a file is gone, or soon will be, and what to do, as far as the store tells."""
    outcome: Outcome | None = None
    outcome_reason: str = ""
    outcome_message: str = ""
    trials: TrialCounts | None = None
    best: Best | None = None
    receipt_uri: str = ""
    made_at: float = 0.0


class ExportState(StrEnum):
    """What is known of an export."""

    PROVEN = "Proven"
    FAILED = "Failed"  # the driver says so, or its copy is not as it should be
    ABSENT = "Absent"  # the driver left no word on it
    UNKNOWN = "Unknown"  # could not be read


@dataclass(frozen=True)
class ExportLook:
    """The operator's own look at the copy of the best checkpoint."""

    attempt_id: str
    state: ExportState
    message: str = ""
    uri: str = ""
    files: int = 0
    bytes: int = 0
    made_at: float = 0.0


@dataclass(frozen=True)
class StoreView:
    """What this pass knows from the store. None: not asked for, or not there."""

    progress: Progress | Unreadable | None = None
    end: End | Unreadable | None = None
    settlement: Settlement | None = None
    """The newest result of the background look at the current attempt."""
    settling: bool = False
    """A background look is under way."""
    export: ExportLook | None = None
    """The newest look at the current attempt's export."""
    started: bool = False
    """A driver of the current attempt has left its marker; asked for until there is a heartbeat of that attempt."""


@dataclass(frozen=True)
class Observed:
    """All inputs of a decision. Nothing of an event is in here."""

    sweep: SweepView
    sweep_class: ClassView | None = None
    """With an error beside it: what the status keeps of a class that is gone, to prove and release, never to launch."""
    class_error: str = ""
    """Why the class could not be used, "" where there is none to use or it is fine."""
    ray_job: RayJobView | Unreadable | None = None
    cluster: ClusterView | Unreadable | None = None
    orphans: tuple[ClusterView, ...] = ()
    """RayClusters of the current attempt that no RayJob owns and that are not being deleted."""
    pods: tuple[PodView, ...] | Unreadable | None = None
    """Pods of all clusters of the current attempt; None: not asked for."""
    hold: HoldView | Unreadable | None = None
    store: StoreView = field(default_factory=StoreView)
    kuberay: KubeRay = field(default_factory=KubeRay)
    refusal: str = ""
    """What the API server said when it refused (403, 422) our last try to create or patch; "" after a success."""
    situation: Situation | None = None
    """The raw objects of a live attempt and what explains a wait; None where there is no live attempt."""
    line: tuple[InLine, ...] | Unreadable | None = None
    """The other sweeps of the class, listed in this pass; None where the class counts nothing over its sweeps."""
    last_status_write: float | None = None
    """When this process last wrote the sweep's status; None after a restart."""


# ---------------------------------------------------------------------------------------------------- what is wanted


@dataclass(frozen=True)
class AddFinalizer:
    """JSON patch with a resourceVersion test."""


@dataclass(frozen=True)
class RemoveFinalizer:
    """JSON patch with a resourceVersion test."""


@dataclass(frozen=True)
class WriteStatus:
    """The one status write of a pass, conditional on resourceVersion; on a conflict the rest of the plan is dropped."""

    status: TrainSweepStatus


@dataclass(frozen=True)
class EnsureHold:
    """GET or create the attempt's TrainSweepHold (no owner; labels sweep-uid and attempt)."""

    name: str
    attempt: int


@dataclass(frozen=True)
class CreateRayJob:
    """POST under the deterministic name with two owner references. 409: the next pass looks at what is there."""

    body: Mapping[str, Any]
    hold: str


@dataclass(frozen=True)
class RepairHoldReference:
    """Make a missing hold again and patch its owner reference back into the RayJob."""

    ray_job: str
    hold: str
    attempt: int


@dataclass(frozen=True)
class PatchControl:
    """Merge-patch the control annotation on the head pod."""

    pod: str
    control: Control


@dataclass(frozen=True)
class PatchRayJob:
    """Merge-patch fields of a RayJob's spec; checked like a create before it is sent, precondition on its uid."""

    name: str
    uid: str
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class DeleteRayJob:
    """Background delete with a precondition on the uid."""

    name: str
    uid: str


@dataclass(frozen=True)
class DeleteRayCluster:
    """Background delete of a RayCluster without a RayJob, with a precondition on the uid."""

    name: str
    uid: str


@dataclass(frozen=True)
class DeleteHold:
    """Delete the hold, if it is there."""

    name: str


@dataclass(frozen=True)
class Settle:
    """Start a background look at the attempt's receipt, or an inventory where there is none and `inventory` allows it.

    Single-flight by (sweep uid, attempt id, digest); its end enqueues the key.
    """

    attempt_id: str
    digest: str = ""
    inventory: bool = False
    export: bool = False
    """Look at the attempt's export instead."""


@dataclass(frozen=True)
class EmitEvent:
    """A Kubernetes Event on the sweep; emitted last, never when the status write failed."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


Action = (
    AddFinalizer
    | RemoveFinalizer
    | WriteStatus
    | EnsureHold
    | CreateRayJob
    | RepairHoldReference
    | PatchControl
    | PatchRayJob
    | DeleteRayJob
    | DeleteRayCluster
    | DeleteHold
    | Settle
    | EmitEvent
)


@dataclass(frozen=True)
class Plan:
    """What a pass does, in order, and when to look again (Unix seconds; None: at a change, or at the resync)."""

    actions: tuple[Action, ...] = ()
    wake_at: float | None = None

    @property
    def status(self) -> TrainSweepStatus | None:
        """The status that this plan writes, if it does."""
        return next((a.status for a in self.actions if isinstance(a, WriteStatus)), None)
