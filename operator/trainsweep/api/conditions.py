"""Condition types and reasons: the one list. Each reason is UpperCamelCase and has a place in docs/troubleshooting."""

from __future__ import annotations

from enum import StrEnum


class Condition(StrEnum):
    """Types of conditions in `status.conditions`."""

    FINISHED = "Finished"  # True once terminal: kubectl wait --for=condition=Finished
    SUCCEEDED = "Succeeded"  # Unknown while active; its reason is the STATE column
    READY = "Ready"  # kstatus: equals Succeeded
    ADMITTED = "Admitted"
    CLUSTER_READY = "ClusterReady"
    TRIALS_FINISHED = "TrialsFinished"
    CHECKPOINTS_VERIFIED = "CheckpointsVerified"
    EXPORTED = "Exported"  # absent without checkpoints.export
    RELEASED = "Released"  # all pods of the last attempt are gone
    SUSPENDED = "Suspended"  # absent unless it applies
    DASHBOARD_PROTECTED = "DashboardProtected"
    RECONCILING = "Reconciling"  # absent unless it applies
    STALLED = "Stalled"  # absent unless it applies; never together with Reconciling


class Reason(StrEnum):
    """Reasons of conditions."""

    # Succeeded/Ready while active (STATE)
    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    SETTLING = "Settling"
    VERIFYING = "Verifying"
    STOPPING = "Stopping"
    RETRYING = "Retrying"
    SUSPENDED = "Suspended"  # also of the condition Suspended
    DELETING = "Deleting"
    UNKNOWN = "Unknown"
    # Succeeded terminal
    COMPLETED = "Completed"
    GOAL_REACHED = "GoalReached"
    COMPLETED_UNVERIFIED = "CompletedUnverified"  # onMissing: Warn
    FAILED = "Failed"
    MAX_FAILED_TRIALS = "MaxFailedTrials"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    QUEUED_DEADLINE_EXCEEDED = "QueuedDeadlineExceeded"
    STARTUP_DEADLINE_EXCEEDED = "StartupDeadlineExceeded"
    STALL_DEADLINE_EXCEEDED = "StallDeadlineExceeded"
    BUDGET_EXCEEDED = "BudgetExceeded"
    RETRIES_EXHAUSTED = "RetriesExhausted"
    CHECKPOINTS_MISSING = "CheckpointsMissing"
    VERIFICATION_TIMED_OUT = "VerificationTimedOut"
    INVALID_SPEC = "InvalidSpec"
    PERMANENT_FAILURE = "PermanentFailure"
    ADOPTED_FINISHED_RUN = "AdoptedFinishedRun"
    # Admitted
    ADMITTED = "Admitted"
    CLASS_NOT_FOUND = "ClassNotFound"
    LIMIT_EXCEEDED = "LimitExceeded"
    NOT_ALLOWED = "NotAllowed"
    STORAGE_NOT_ALLOWED = "StorageNotAllowed"
    NAME_CONFLICT = "NameConflict"
    INTERNAL_ERROR = "InternalError"
    KUBERAY_REFUSED = "KubeRayRefused"
    # ClusterReady
    CLUSTER_READY = "ClusterReady"
    CLUSTER_STARTING = "ClusterStarting"
    HEAD_LOST = "HeadLost"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    UNSCHEDULABLE = "Unschedulable"
    CONTAINER_FAILED = "ContainerFailed"
    POD_REFUSED = "PodRefused"
    QUEUED = "Queued"
    CLUSTER_GONE = "ClusterGone"
    WAITING = "Waiting"  # of Events: status.pending has a new reason that does not pass by itself
    # TrialsFinished
    TRIALS_FINISHED = "TrialsFinished"
    TRIALS_RUNNING = "TrialsRunning"
    NOT_STARTED = "NotStarted"
    # CheckpointsVerified
    VERIFIED = "Verified"
    NOTHING_TO_VERIFY = "NothingToVerify"
    NOT_REQUIRED = "NotRequired"
    FILES_MISSING = "FilesMissing"
    RECEIPT_INVALID = "ReceiptInvalid"
    STORE_UNREADABLE = "StoreUnreadable"
    STORE_DENIED = "StoreDenied"
    WAITING_FOR_RECEIPT = "WaitingForReceipt"
    # Exported
    EXPORTED = "Exported"
    EXPORT_FAILED = "ExportFailed"
    EXPORT_UNVERIFIED = "ExportUnverified"
    NOT_EXPORTED = "NotExported"
    # Released
    RELEASED = "Released"
    RELEASED_AFTER_HOLD = "ReleasedAfterHold"
    FORCED = "Forced"
    HELD = "Held"
    # DashboardProtected
    TOKEN_REQUIRED = "TokenRequired"  # noqa: S105  # a reason, no secret
    DASHBOARD_UNPROTECTED = "DashboardUnprotected"


TERMINAL_SUCCESS = frozenset(
    {Reason.COMPLETED, Reason.GOAL_REACHED, Reason.COMPLETED_UNVERIFIED, Reason.ADOPTED_FINISHED_RUN}
)
