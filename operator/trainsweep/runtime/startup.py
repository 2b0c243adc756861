"""Before anything is watched: are we allowed what we need, is KubeRay there, and which one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from trainsweep.render.kuberay import KubeRay
from trainsweep.runtime.kube import (
    EVENT,
    HOLD,
    NODE_CLAIM,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    RESOURCE_QUOTA,
    SWEEP,
    SWEEP_CLASS,
    WORKLOAD,
    Kind,
    Kube,
    KubeError,
)

_log = logging.getLogger(__name__)
POLL_SECONDS = 3.0

RIGHTS: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    (SWEEP, "", ("get", "list", "watch", "patch")),
    (SWEEP, "status", ("update",)),
    (SWEEP_CLASS, "", ("get", "list", "watch")),
    (HOLD, "", ("get", "list", "create", "delete")),
    (RAY_JOB, "", ("get", "list", "watch", "create", "patch", "delete")),
    (RAY_CLUSTER, "", ("get", "list", "watch", "delete")),
    (POD, "", ("get", "list", "patch")),
    (EVENT, "", ("list", "create")),
)
"""All that the operator does to the API server, and nothing more: the chart's rules are tested against this table.

With the admission plugin OwnerReferencesPermissionEnforcement, `update` on trainsweeps/finalizers is needed too: our
owner references block the owner's deletion.
"""
EXPLAINING: tuple[tuple[Kind, str, tuple[str, ...]], ...] = (
    (RESOURCE_QUOTA, "", ("list",)),
    (WORKLOAD, "", ("list",)),
    (NODE_CLAIM, "", ("list",)),
)
"""Read only to say why a sweep waits. Nothing else depends on it: what is missing is said there, not at the start."""
FINALIZERS_RIGHT = (SWEEP, "finalizers", ("update",))
KINDS = (SWEEP, SWEEP_CLASS, HOLD, RAY_JOB, RAY_CLUSTER)


async def missing_rights(kube: Kube, namespaces: Sequence[str]) -> list[str]:
    """Every right that we lack, in words."""
    found = []
    for kind, subresource, verbs in (*RIGHTS, FINALIZERS_RIGHT):
        for namespace in namespaces or ("",) if kind.namespaced else ("",):
            for verb in verbs:
                if not await kube.allowed(verb, kind, namespace, subresource):
                    what = f"{kind.plural}/{subresource}" if subresource else kind.plural
                    where = f"in namespace {namespace}" if namespace else "in all namespaces"
                    found.append(f"{verb} {what}.{kind.group or 'core'} {where}")
    return found


async def problems(kube: Kube, namespaces: Sequence[str]) -> list[str]:
    """What keeps us from working, each with its cure; empty when we can."""
    try:
        absent = await kube.served(KINDS)
        if absent:
            names = ", ".join(f"{k.plural}.{k.group}/{k.version}" for k in absent)
            cure = "install KubeRay" if any(k.group == RAY_JOB.group for k in absent) else "install TrainSweep's CRDs"
            return [f"not served by the API server: {names}; {cure}"]
        lacking = await missing_rights(kube, namespaces)
    except KubeError as error:
        return [f"the API server cannot be asked: {type(error).__name__} {error.message}"]
    return [f"missing right: {right}; install the operator's roles" for right in lacking]


async def detect_kuberay(kube: Kube) -> KubeRay:
    """What the served KubeRay can do, from the schema that its CRDs publish: what they do not know is pruned."""
    schema = await kube.schema(RAY_JOB)
    if schema is None:
        _log.warning("KubeRay's schema is not published: assuming the tested version")
        return KubeRay()
    found = KubeRay.of_crd({"spec": {"versions": [{"name": RAY_JOB.version, "schema": {"openAPIV3Schema": schema}}]}})
    for lack in found.lacks():
        _log.warning("%s", lack)
    return found


async def wait_until_ready(kube: Kube, namespaces: Sequence[str], seconds: float) -> list[str]:
    """Waits until nothing is missing; gives back what still is when the time is over.

    A CRD that comes after our start would not be watched: so we do not start before it is there.
    """
    until = time.monotonic() + seconds
    told: list[str] = []
    while found := await problems(kube, namespaces):
        if found != told:
            for problem in found:
                _log.error("not ready: %s", problem)
            told = found
        if time.monotonic() >= until:
            return found
        await asyncio.sleep(POLL_SECONDS)
    return []
