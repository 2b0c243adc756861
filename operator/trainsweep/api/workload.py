"""`spec.training`, `spec.cluster` and `spec.scheduling`: what runs in a trial and on which pods."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainsweep.api.base import (
    ApiModel,
    DnsLabel,
    DnsSubdomain,
    FreeForm,
    LabelMap,
    ResourceList,
    Rule,
    free_form,
    schema,
)

EnvName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class LocalObject(ApiModel):
    """An object of the sweep's own namespace."""

    name: DnsSubdomain = Field(description="Name of the object, in the sweep's namespace.")


class S3Source(ApiModel):
    """An archive with the training code in S3."""

    uri: str = Field(
        min_length=12,
        max_length=1024,
        pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)+$",
        description="s3://bucket/key of a .zip, .tar or .tar.gz; below a prefix that the class allows.",
    )
    sha256: str = Field(
        min_length=64,
        max_length=64,
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the archive in hex, as sha256sum prints it; other bytes are never unpacked.",
    )


class Source(ApiModel):
    """Where the training code comes from, if it is not in the image."""

    config_map: LocalObject | None = Field(
        default=None,
        description="A ConfigMap whose keys are Python files; they are mounted on every Ray pod and put on PYTHONPATH.",
    )

    s3: S3Source | None = Field(
        default=None,
        description="An archive in S3, unpacked once on the head and on each worker node and put on sys.path.",
    )

    rules: ClassVar = (
        Rule(
            "has(self.configMap) != has(self.s3)",
            "set exactly one of configMap or s3, or remove source when the code is in the image",
        ),
    )


def _one_cpu() -> dict[str, int | str]:
    return {"cpu": 1}


class Workers(ApiModel):
    """The workers of one trial."""

    count: int = Field(
        default=1, ge=1, le=1024, description="Number of training workers of one trial; or set min and max."
    )
    min: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Elastic: a trial trains with at least so many workers; it goes on from its last checkpoint when nodes "
        "come or go. The loop keeps the global batch.",
    )
    max: int | None = Field(default=None, ge=1, le=1024, description="Elastic: it trains with at most so many workers.")
    resources: ResourceList = Field(
        default_factory=_one_cpu,
        description="What one worker takes. CPUs and GPUs are whole numbers, as Ray counts them; absent: one CPU.",
        json_schema_extra=schema(
            **{
                "x-kubernetes-validations": [
                    {
                        "rule": "self.all(k, k != 'cpu' || !string(self[k]).matches('(m|\\\\.)'))",
                        "message": "cpu must be a whole number: Ray counts whole CPUs",
                        "reason": "FieldValueInvalid",
                    }
                ]
            }
        ),
    )

    rules: ClassVar = (
        Rule("has(self.min) == has(self.max)", "set min and max together, or count alone"),
        Rule("!has(self.count) || !has(self.min)", "set count, or min and max, not both"),
        Rule("!has(self.min) || !has(self.max) || self.min <= self.max", "must not be greater than max", ".min"),
    )

    @property
    def fewest(self) -> int:
        """Workers without which no trial trains."""
        return self.count if self.min is None else self.min

    @property
    def most(self) -> int:
        """Workers that a trial takes where there is room."""
        return self.count if self.max is None else self.max


class EnvVar(ApiModel):
    """An environment variable with a literal value, or from a Secret or ConfigMap of the namespace."""

    name: EnvName = Field(description="Name of the variable. RAY_*, TRAINSWEEP_* and some others are reserved.")
    value: str | None = Field(
        default=None, max_length=8192, description="Literal value; $(NAME) is expanded as Kubernetes does."
    )
    value_from: FreeForm | None = Field(
        default=None,
        description="A source as in a container: secretKeyRef, configMapKeyRef, fieldRef or resourceFieldRef.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True, "maxProperties": 1, "type": "object"},
    )


class EnvFrom(ApiModel):
    """All keys of a Secret or ConfigMap as environment variables."""

    prefix: str = Field(
        default="", max_length=64, pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$", description="Put before each key."
    )
    secret_ref: LocalObject | None = Field(default=None, description="A Secret of the sweep's namespace.")
    config_map_ref: LocalObject | None = Field(default=None, description="A ConfigMap of the sweep's namespace.")

    rules: ClassVar = (
        Rule("has(self.secretRef) != has(self.configMapRef)", "set exactly one of secretRef or configMapRef"),
    )


class Training(ApiModel):
    """What one trial runs."""

    entrypoint: str = Field(
        max_length=256,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        description="module:function, the loop that every worker runs; called with one dict, config plus parameters.",
    )
    source: Source | None = Field(default=None, description="Where the code comes from; absent: it is in the image.")
    image: str = Field(
        default="",
        max_length=512,
        pattern=r"^(\S+)?$",
        description="Image of the Ray pods; best by digest. Absent: the class's.",
    )
    image_pull_secrets: list[LocalObject] = Field(
        default_factory=list,
        max_length=8,
        description="Secrets of the sweep's namespace for pulling the image.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    )
    workers: Workers = Field(default_factory=Workers, description="The workers of one trial; absent: one with one CPU.")
    config: FreeForm = free_form("Constants for the loop, any JSON, at most 16 KiB in all.")
    env: list[EnvVar] = Field(
        default_factory=list,
        max_length=64,
        description="Environment of every Ray container.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    )
    env_from: list[EnvFrom] = Field(
        default_factory=list,
        max_length=16,
        description="Environment of every Ray container, from whole Secrets and ConfigMaps.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "atomic"}),
    )
    runtime_env: FreeForm = free_form(
        "Ray's runtime environment: pip, uv, working_dir, py_modules and env_vars only.", 8
    )


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    key: str = Field(default="", max_length=317, description="Taint key; empty with operator Exists tolerates all.")
    operator: Literal["Exists", "Equal"] = Field(default="Equal", description="Exists or Equal.")
    value: str = Field(default="", max_length=63, description="Taint value.")
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        default="", description="Taint effect; empty matches all."
    )
    toleration_seconds: int | None = Field(
        default=None, ge=0, le=31_536_000, description="How long NoExecute is tolerated."
    )


Tolerations = Annotated[
    list[Toleration],
    Field(
        max_length=16,
        description="Tolerations of the pods.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "atomic"}),
    ),
]


class Head(ApiModel):
    """The head pod: the driver, the trial drivers and Train's controllers run there, no training."""

    resources: ResourceList = Field(
        default_factory=dict,
        description="Requests and limits of the head; absent: 2 CPUs and 3 GB + 1.3 GB for each concurrent trial.",
    )
    node_selector: LabelMap = Field(
        default_factory=dict, description="Node labels that the head needs; prefer on-demand nodes."
    )
    tolerations: Tolerations = Field(default_factory=list, description="Tolerations of the head.")
    pod_template: FreeForm = free_form(
        "Overlay on the head's pod template. Allowed: labels, annotations, affinity, topologySpreadConstraints, "
        "volumes (emptyDir, persistentVolumeClaim, secret, configMap, projected), volumeMounts, restricted sidecars.",
        2,
    )


class WorkerGroup(ApiModel):
    """A group of equal worker pods."""

    name: DnsLabel = Field(description="Name of the group.")
    resources: ResourceList = Field(
        description="Requests and limits of one pod; it must hold at least one whole training worker."
    )
    min_replicas: int = Field(default=0, ge=0, le=1024, description="Pods that are kept while the sweep runs.")
    max_replicas: int | None = Field(
        default=None, ge=1, le=1024, description="Upper bound of pods; absent: what maxConcurrent trials need."
    )
    node_selector: LabelMap = Field(default_factory=dict, description="Node labels that the pods need.")
    tolerations: Tolerations = Field(default_factory=list, description="Tolerations of the pods.")
    pod_template: FreeForm = free_form(
        "Overlay on the pods' template; what is allowed is said at cluster.head.podTemplate.", 2
    )

    rules: ClassVar = (
        Rule("self.name != 'head'", "must not be 'head': Kueue keeps that name for the head", ".name"),
        Rule(
            "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            "must not be greater than maxReplicas",
            ".minReplicas",
        ),
    )


class Autoscaling(ApiModel):
    """When idle worker pods go."""

    idle_seconds: int = Field(
        default=120, ge=10, le=86400, description="Idle seconds after which a worker pod is removed."
    )


class Cluster(ApiModel):
    """The Ray cluster of an attempt."""

    ray_version: str = Field(
        default="2.58.0", max_length=16, pattern=r"^\d+\.\d+\.\d+$", description="Version of Ray in the image."
    )
    head: Head = Field(default_factory=Head, description="The head pod.")
    worker_groups: list[WorkerGroup] = Field(
        default_factory=list,
        max_length=8,
        description="Groups of worker pods; absent: one group is derived from training.workers.",
        json_schema_extra=schema(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    )
    autoscaling: Autoscaling | None = Field(
        default_factory=Autoscaling, description="Autoscaling of the worker groups; absent: with idleSeconds 120."
    )


class Scheduling(ApiModel):
    """How the pods are queued and protected."""

    queue_name: str = Field(
        default="",
        max_length=253,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="Kueue LocalQueue; absent: none.",
    )
    priority_class_name: str = Field(
        default="",
        max_length=253,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="PriorityClass of all pods.",
    )
    protect_from_disruption: bool = Field(
        default=True, description="Ask Karpenter and cluster-autoscaler not to disrupt the pods."
    )


class Require(StrEnum):
    """Which checkpoints must be proven before a cluster may go."""

    NONE = "None"
    BEST_TRIAL = "BestTrial"
    ALL_SUCCEEDED = "AllSucceeded"
    ALL_REPORTED = "AllReported"


class Depth(StrEnum):
    """How deep the second look goes."""

    LISTING = "Listing"
    SIZES = "Sizes"
    CHECKSUMS = "Checksums"
