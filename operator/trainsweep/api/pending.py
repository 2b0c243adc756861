"""Why a sweep waits: the layers that a sweep passes on its way to running trials, and the reasons of each.

`status.pending` names the lowest layer that is not satisfied. Each reason has its place in docs/troubleshooting.
"""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """The layers, in the order in which a sweep passes them."""

    SPEC = "Spec"  # what was written: refused by us, by KubeRay, or by the class
    CLASS = "ClassLimit"  # what the class has left: GPUs over its sweeps, GPU-hours of the namespace
    KUEUE = "Kueue"  # the Workload of the RayJob
    QUOTA = "Quota"  # ResourceQuota, LimitRange and other refusals of the API server
    KUBERAY = "KubeRay"  # the RayCluster is made, and its groups may grow
    PLACEMENT = "Placement"  # a node is found for each pod
    NODE_SUPPLY = "NodeSupply"  # Karpenter and cluster-autoscaler bring nodes
    IMAGE = "Image"  # image, configuration and start of the containers
    RAY_DEMAND = "RayDemand"  # Ray finds room for a trial's workers
    STORAGE = "Storage"  # the store of the run can be used


class Why(StrEnum):
    """Reasons of `status.pending`, beside those of conditions (`Reason`)."""

    # ClassLimit
    IN_LINE = "InLine"
    GPU_HOURS_SPENT = "GPUHoursSpent"
    LINE_UNREADABLE = "LineUnreadable"
    # Kueue
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_STOPPED = "QueueStopped"
    QUOTA_IN_USE = "QuotaInUse"
    NEVER_FITS_QUOTA = "NeverFitsQuota"
    NO_FLAVOR = "NoFlavor"
    ADMISSION_CHECKS = "AdmissionChecks"
    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    WORKLOAD_DEACTIVATED = "WorkloadDeactivated"
    NO_WORKLOAD = "NoWorkload"
    # Quota
    QUOTA_EXCEEDED = "QuotaExceeded"
    QUOTA_NEEDS_REQUESTS = "QuotaNeedsRequests"
    QUOTA_UNKNOWN = "QuotaUnknown"
    LIMIT_RANGE = "LimitRange"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    PRIORITY_CLASS_NOT_FOUND = "PriorityClassNotFound"
    POD_SECURITY = "PodSecurity"
    # KubeRay
    KUBERAY_SILENT = "KubeRaySilent"
    CLUSTER_NOT_MADE = "ClusterNotMade"
    GROUP_AT_MAXIMUM = "GroupAtMaximum"
    # Placement
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    NODE_SELECTOR = "NodeSelectorMismatch"
    VOLUME_UNAVAILABLE = "VolumeUnavailable"
    TOPOLOGY_SPREAD = "TopologySpread"
    TOO_MANY_PODS = "TooManyPods"
    SCHEDULING_GATED = "SchedulingGated"
    RESOURCE_CLAIMS = "ResourceClaims"
    NO_NODES = "NoNodes"
    # NodeSupply
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    VCPU_LIMIT_EXCEEDED = "VcpuLimitExceeded"
    SPOT_QUOTA_EXCEEDED = "SpotQuotaExceeded"
    FLEET_QUOTA_EXCEEDED = "FleetQuotaExceeded"
    SUBNET_FULL = "SubnetFull"
    LAUNCH_UNAUTHORIZED = "LaunchUnauthorized"
    AMI_NOT_FOUND = "AMINotFound"
    REQUEST_THROTTLED = "RequestThrottled"
    LAUNCH_FAILED = "LaunchFailed"
    NODE_POOL_LIMIT = "NodePoolLimit"
    NO_INSTANCE_TYPE = "NoInstanceType"
    NO_OFFERING = "NoOffering"
    RESERVATION_FULL = "ReservationFull"
    NODE_POOL_TAINT = "NodePoolTaint"
    CLAIMS_NOT_SUPPORTED = "ClaimsNotSupported"
    NODE_CLASS_NOT_READY = "NodeClassNotReady"
    NODE_STARTING = "NodeStarting"
    NODE_NOT_REGISTERED = "NodeNotRegistered"
    NODE_NOT_READY = "NodeNotReady"
    RESOURCE_NOT_REGISTERED = "ResourceNotRegistered"
    NODE_GROUP_MAXIMUM = "NodeGroupMaximum"
    SCALE_UP_BACKOFF = "ScaleUpBackoff"
    SCALE_UP_FAILED = "ScaleUpFailed"
    NO_SCALE_UP = "NoScaleUp"
    SCALING_UP = "ScalingUp"
    # Image
    IMAGE_NOT_FOUND = "ImageNotFound"
    IMAGE_PULL_DENIED = "ImagePullDenied"
    IMAGE_NAME_INVALID = "ImageNameInvalid"
    IMAGE_PULLING = "ImagePulling"
    CONFIG_MISSING = "ConfigMissing"
    MOUNT_FAILED = "MountFailed"
    SANDBOX_FAILED = "SandboxFailed"
    REJECTED_BY_NODE = "RejectedByNode"
    # RayDemand
    DEMAND_INFEASIBLE = "DemandInfeasible"
    WORKERS_AWAITED = "WorkersAwaited"
    NO_TRIAL_PLACED = "NoTrialPlaced"
    # Storage
    STORAGE_DENIED = "StorageDenied"
    STORAGE_CREDENTIALS = "StorageCredentials"
    BUCKET_NOT_FOUND = "BucketNotFound"
    STORAGE_UNREACHABLE = "StorageUnreachable"
    STORAGE_SLOW_DOWN = "StorageSlowDown"
