"""What we need of a Kubernetes API server: a port of a few verbs over plain dicts, and the ways in which it says no.

The adapter over the real client is `kube_client`; tests bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainsweep import api

Object = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of object as the API server serves it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version


SWEEP = Kind(api.GROUP, api.VERSION, "trainsweeps", "TrainSweep")
SWEEP_CLASS = Kind(api.GROUP, api.VERSION, "trainsweepclasses", "TrainSweepClass", namespaced=False)
HOLD = Kind(api.GROUP, api.VERSION, "trainsweepholds", "TrainSweepHold")
RAY_JOB = Kind("ray.io", "v1", "rayjobs", "RayJob")
RAY_CLUSTER = Kind("ray.io", "v1", "rayclusters", "RayCluster")
POD = Kind("", "v1", "pods", "Pod")
EVENT = Kind("", "v1", "events", "Event")
# Only to say why a sweep waits; all but quotas may not be served here.
RESOURCE_QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")
WORKLOAD = Kind("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
WORKLOAD_OLD = Kind("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")
NODE_CLAIM = Kind("karpenter.sh", "v1", "nodeclaims", "NodeClaim", namespaced=False)


class KubeError(Exception):
    """A call that gave no result. `message` is the server's own, cut."""

    def __init__(self, message: str = "") -> None:
        self.message = message[:1024]
        super().__init__(self.message)


class NotFound(KubeError):  # noqa: N818  # named for what it says
    """404: the object, or the kind itself, is not there."""


class Conflict(KubeError):  # noqa: N818  # named for what it says
    """409: the object exists already, or a precondition (resourceVersion, uid) does not hold."""


class Denied(KubeError):  # noqa: N818  # named for what it says
    """401, 403: refused for good, or until someone changes the rights."""


class Invalid(KubeError):  # noqa: N818  # named for what it says
    """400, 413, 422: the API server says that the request can never be right."""


class Unavailable(KubeError):  # noqa: N818  # named for what it says
    """429, 5xx, time-outs, no connection: nothing is known. `retry_after` in seconds, if the server said it."""

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Kube(Protocol):
    """The verbs. Every method raises `KubeError` only; every one has a time-out."""

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """One object, as the API server has it now."""
        ...

    async def page(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, token: str = ""
    ) -> tuple[list[Object], str]:
        """One page of objects and the token of the next page ("" at the end); `namespace` "" means all."""
        ...

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        """POST. Raises Conflict where the name is taken."""
        ...

    async def merge_patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        """Merge patch. A uid or resourceVersion in `body.metadata` is a precondition (Conflict)."""
        ...

    async def put_status(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        """PUT of the status subresource; `body.metadata` carries the uid and resourceVersion that must still hold."""
        ...

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        """Background delete; with `uid` only of that very object."""
        ...

    async def allowed(self, verb: str, kind: Kind, namespace: str = "", subresource: str = "") -> bool:
        """Whether we may do this (SelfSubjectAccessReview); `namespace` "" means in all."""
        ...

    async def served(self, kinds: Sequence[Kind]) -> list[Kind]:
        """Those of the kinds that the API server does not serve."""
        ...

    async def log(self, pod: str, container: str, namespace: str, lines: int) -> str:
        """The tail of a container's log."""
        ...

    async def schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """The published OpenAPI schema of a kind; None where the API server publishes none."""
        ...
