"""`TrainSweepClass`: what a platform team sets for sweeps; and `TrainSweepHold`, which only keeps a RayJob."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainsweep.api.base import ApiModel, FreeForm, free_form

DEFAULT_CLASS_ANNOTATION = "trainsweep.io/is-default-class"

Prefix = Annotated[str, Field(min_length=1, max_length=512)]
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=512)]], Field(max_length=64)]


class Limits(ApiModel):
    """Ceilings; absent means no ceiling."""

    gpus: int | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="GPUs of all live sweeps of the class together; who comes later waits in line. One sweep is cut to it too.",
    )
    trials: int | None = Field(default=None, ge=1, le=10_000, description="Largest trials.count.")
    max_concurrent: int | None = Field(default=None, ge=1, le=256, description="Largest trials.maxConcurrent.")
    total_seconds: int | None = Field(
        default=None,
        ge=10,
        le=31_536_000,
        description="Largest deadlines.totalSeconds; also the default where a sweep sets none.",
    )
    gpu_hours: float | None = Field(
        default=None,
        ge=0.01,
        le=10_000_000,
        description="GPU-hours of a namespace: once its sweeps have used them, none starts. Also the largest "
        "budget.gpuHours, and the budget of a sweep that sets none.",
    )


class ClassStorage(ApiModel):
    """Which storage sweeps of this class may name. The operator reads nowhere else."""

    allowed_prefixes: list[Prefix] = Field(
        default_factory=list,
        max_length=64,
        description="Prefixes such as s3://bucket/{namespace}, compared segment by segment; empty: none is allowed.",
    )
    endpoints: list[Prefix] = Field(
        default_factory=list,
        max_length=16,
        description="Endpoints of S3-compatible stores that a sweep may name, exactly.",
    )
    verifier_role_arn: str = Field(
        default="",
        alias="verifierRoleARN",
        max_length=612,
        pattern=r"^(arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+)?$",
        description="Role that the operator assumes to read the runs of this class, with the sweep's namespace as session "
        "tag kubernetes-namespace; absent: the operator's own identity.",
    )
    credentials_secret: str = Field(
        default="",
        max_length=253,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="Secret in the sweep's namespace with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the Ray "
        "pods; absent: the pods' own identity (IRSA, Pod Identity, instance role).",
    )


class Allowed(ApiModel):
    """Names that sweeps of this class may use; an absent list allows all, an empty one none."""

    service_accounts: Names | None = Field(default=None, description="ServiceAccounts for the Ray pods.")
    queues: Names | None = Field(default=None, description="Kueue LocalQueues.")
    priority_classes: Names | None = Field(default=None, description="PriorityClasses.")
    node_selector_keys: Names | None = Field(default=None, description="Keys in node selectors.")
    images: Names | None = Field(default=None, description="Image prefixes, such as registry.example/team/.")


class PodOverlay(ApiModel):
    """Pod template overlays that only a class may set: hostPath and privilege are possible here."""

    head: FreeForm = free_form("Overlay on the head's pod template, merged last.", 4)
    worker: FreeForm = free_form("Overlay on every worker's pod template, merged last.", 4)


class TrainSweepClassSpec(ApiModel):
    """Defaults, ceilings and permissions of a class of sweeps."""

    defaults: FreeForm = Field(
        default_factory=dict,
        description="Defaults for any field of a sweep but objective, search and trials.",
        json_schema_extra={"x-trainsweep-partial-spec": True},
    )
    limits: Limits = Field(default_factory=Limits, description="Ceilings.")
    storage: ClassStorage = Field(default_factory=ClassStorage, description="Which storage may be named.")
    allowed: Allowed = Field(default_factory=Allowed, description="Names that may be used.")
    pod_overlay: PodOverlay = Field(default_factory=PodOverlay, description="Overlays only a class may set.")


class TrainSweepHoldSpec(ApiModel):
    """Empty: a hold says nothing and only owns its RayJob."""
