"""observe(key): everything that decide() may look at, read from the API server now, never taken from an event.

404 is None. Whatever else goes wrong with a child is `Unreadable`; a sweep that cannot be read ends the pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from trainsweep.api.conditions import Condition
from trainsweep.contract import labels
from trainsweep.contract.layout import attempt_id
from trainsweep.core.draft import is_true
from trainsweep.core.model import (
    ClassView,
    ClusterView,
    HoldView,
    InLine,
    Observed,
    PodView,
    RayJobView,
    StoreView,
    SweepView,
    Unreadable,
)
from trainsweep.core.pending.demand import demand_of
from trainsweep.core.pending.situation import Situation
from trainsweep.render.kuberay import KubeRay
from trainsweep.render.rayjob import hold_name, rayjob_name
from trainsweep.runtime.access import Access, access_of
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import (
    HOLD,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    SWEEP,
    Denied,
    Kind,
    Kube,
    KubeError,
    NotFound,
    Object,
)
from trainsweep.runtime.line import others_in_line
from trainsweep.runtime.looks import NOT_ASKED, Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.pod_views import pod_view
from trainsweep.runtime.views import cluster_view, hold_view, mapping, ray_job_view, sweep_view
from trainsweep.runtime.waiting import Bodies, Waiting

T = TypeVar("T")

PODS = 5000
CLUSTERS = 10
ENDED = ("Complete", "Failed", "ValidationFailed", "Suspended")


class Observer:
    """Reads one sweep and what belongs to it."""

    def __init__(
        self,
        kube: Kube,
        classes: Classes,
        looks: Looks,
        memory: Memory,
        kuberay: KubeRay,
        now: Callable[[], float] = time.time,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._kube, self._classes, self._looks, self._memory = kube, classes, looks, memory
        self._kuberay = kuberay
        self._waiting = Waiting(kube, now)
        self.namespaces = namespaces
        """Those that are served: the line of a class is counted in them. Empty: all."""

    async def observe(self, key: SweepKey) -> Observed | None:
        """What decide() needs to know, or None where the sweep is gone.

        Raises:
            KubeError: where the sweep or its class could not be read.
        """
        try:
            sweep = sweep_view(await self._kube.get(SWEEP, key.name, key.namespace))
        except NotFound:
            return None
        sweep_class, class_error = await self._classes.for_sweep(sweep)
        number = sweep.status.attempt
        job: RayJobView | Unreadable | None = None
        cluster: ClusterView | Unreadable | None = None
        orphans: tuple[ClusterView, ...] = ()
        pods: tuple[PodView, ...] | Unreadable | None = None
        hold: HoldView | Unreadable | None = None
        store = StoreView()
        situation: Situation | None = None
        job_body: Object | Unreadable | None = None
        cluster_body: Object | Unreadable | None = None
        pod_bodies: list[Object] | Unreadable | None = None
        access: Access | Unreadable | None = None
        if number > 0:
            name = rayjob_name(sweep.name, sweep.uid, number)
            job_body = await self._child(RAY_JOB, name, key.namespace)
            job = _as(job_body, ray_job_view)
            hold = _as(await self._child(HOLD, hold_name(name), key.namespace), hold_view)
            last = sweep.status.attempts[-1] if sweep.status.attempts else None
            if last is None or last.gone_at is None:
                clusters = await self._clusters(sweep, number, job, over=bool(last and last.ended_at))
                cluster_body = clusters if isinstance(clusters, Unreadable) else _current(clusters, job)
                cluster = _as(cluster_body, cluster_view)
                if isinstance(clusters, list):
                    orphans = tuple(view for view in map(cluster_view, clusters) if view.orphan)
                pod_bodies = await self._listed(POD, sweep, number, PODS)
            if last is None or last.settled_at is None:
                ended = bool(last and last.ended_at) or (isinstance(job, RayJobView) and job.deployment_status in ENDED)
                access = access_of(sweep, sweep_class)
                own = attempt_id(number, sweep.uid)
                if isinstance(access, Unreadable):
                    known = self._looks.settlement(key, sweep.uid, own)
                    store = StoreView(access, access if ended else None, known)
                elif access is not None:
                    store = await self._looks.view(key, access, own, ended=ended)
            unseen = job is None and (last is None or last.ended_at is None)
            if unseen and (cluster is not None or pod_bodies or store.started or store.progress is not None):
                # Left by a RayJob that is gone, or of one that came after our first look at it.
                job_body = await self._child(RAY_JOB, name, key.namespace)
                job = _as(job_body, ray_job_view)
            if last is None or last.ended_at is None:
                bodies = Bodies(
                    ray_job=_known(job_body),
                    ray_cluster=_known(cluster_body),
                    pods=pod_bodies if isinstance(pod_bodies, list) else (),
                    refusal=self._memory.refusals.get(key, ""),
                    store=_trouble(store),
                    demand=demand_of(access.spec) if isinstance(access, Access) else None,
                )
                situation = await self._waiting.situation(sweep, bodies)
            if isinstance(pod_bodies, Unreadable):
                pods = pod_bodies
            elif pod_bodies is not None:
                pods = tuple(pod_view(b, situation.of(b) if situation else ()) for b in pod_bodies)
        return Observed(
            sweep=sweep,
            sweep_class=sweep_class,
            class_error=class_error,
            ray_job=job,
            cluster=cluster,
            orphans=orphans,
            pods=pods,
            hold=hold,
            store=store,
            kuberay=self._kuberay,
            situation=situation,
            line=await self._line(sweep, sweep_class if not class_error else None),
            refusal=self._memory.refusals.get(key, ""),
            last_status_write=self._memory.status_written.get(key),
        )

    async def _line(self, sweep: SweepView, found: ClassView | None) -> tuple[InLine, ...] | Unreadable | None:
        """The other sweeps of the class, only where it counts over them and this sweep may be about to launch."""
        last = sweep.status.attempts[-1] if sweep.status.attempts else None
        done = is_true(sweep.status, Condition.FINISHED) or sweep.deletion_requested_at is not None
        if found is None or done or (last is not None and last.gone_at is None) or sweep.spec.get("suspend") is True:
            return None
        limits = found.spec.limits
        if limits.gpus is None and limits.gpu_hours is None:
            return None
        return await others_in_line(self._kube, self._classes, self.namespaces, sweep, found.name)

    async def _child(self, kind: Kind, name: str, namespace: str) -> Object | Unreadable | None:
        try:
            return await self._kube.get(kind, name, namespace)
        except NotFound:
            return None
        except KubeError as error:
            return _unreadable(kind, error)

    async def _clusters(
        self, sweep: SweepView, number: int, job: RayJobView | Unreadable | None, *, over: bool
    ) -> list[Object] | Unreadable:
        """The attempt's RayClusters: the one that its RayJob names; of an attempt that has ended, all that are left."""
        if not over and isinstance(job, RayJobView) and job.cluster and job.sweep_uid == sweep.uid:
            found = await self._child(RAY_CLUSTER, job.cluster, sweep.namespace)
            return found if isinstance(found, Unreadable) else [found] if found is not None else []
        # Without its RayJob nobody says the cluster's name; KubeRay has copied our labels to it.
        return await self._listed(RAY_CLUSTER, sweep, number, CLUSTERS)

    async def _listed(self, kind: Kind, sweep: SweepView, number: int, most: int) -> list[Object] | Unreadable:
        selector = f"{labels.SWEEP_UID}={sweep.uid},{labels.ATTEMPT}={number}"
        found: list[Object] = []
        token = ""
        try:
            while len(found) < most:
                page, token = await self._kube.page(
                    kind, sweep.namespace, labels=selector, limit=min(500, most), token=token
                )
                found += page
                if not token:
                    break
        except KubeError as error:
            return _unreadable(kind, error)
        return found


def _current(clusters: list[Object], job: RayJobView | Unreadable | None) -> Object | None:
    """The cluster that the attempt's RayJob names, else one that is not being deleted, else any."""
    named = job.cluster if isinstance(job, RayJobView) else ""

    def place(body: Object) -> tuple[bool, bool]:
        meta = mapping(body.get("metadata"))
        return meta.get("name") != named, meta.get("deletionTimestamp") is not None

    return min(clusters, key=place, default=None)


def _unreadable(kind: Kind, error: KubeError) -> Unreadable:
    return Unreadable(f"{kind.kind}: {error.message or type(error).__name__}", isinstance(error, Denied))


def _as(body: Object | Unreadable | None, view: Callable[[Object], T]) -> T | Unreadable | None:
    return body if body is None or isinstance(body, Unreadable) else view(body)


def _known(body: Object | Unreadable | None) -> Object | None:
    return None if isinstance(body, Unreadable) else body


def _trouble(store: StoreView) -> str:
    """Why the store could not be read, if it could not."""
    progress = store.progress
    return progress.message if isinstance(progress, Unreadable) and progress is not NOT_ASKED else ""
