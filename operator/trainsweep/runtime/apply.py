"""apply(): carries out a plan, action by action, in order. The first failure ends the pass; the next one looks anew.

What a crash between any two actions leaves behind is found again by its deterministic name; nothing is done twice.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from trainsweep.contract import labels
from trainsweep.core import model
from trainsweep.core.model import FINALIZER, EmitEvent, HoldView, Observed, Plan, SweepView, Unreadable
from trainsweep.render.rayjob import owner_references
from trainsweep.render.validation import check
from trainsweep.runtime.access import access_of
from trainsweep.runtime.crash import crash_point
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import (
    HOLD,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    SWEEP,
    Conflict,
    Denied,
    Invalid,
    Kind,
    Kube,
    NotFound,
    Object,
)
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.recorder import Recorder
from trainsweep.runtime.views import hold_view, items, mapping, text

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """A body that KubeRay or Kueue would refuse; it is never sent, since an invalid RayJob is a one-way door."""


class Applier:
    """Carries out plans."""

    def __init__(
        self,
        kube: Kube,
        looks: Looks,
        recorder: Recorder,
        memory: Memory,
        metrics: Metrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._kube, self._looks, self._recorder = kube, looks, recorder
        self._memory, self._metrics, self._now = memory, metrics, now

    async def apply(self, observed: Observed, plan: Plan) -> None:
        """Carries out the plan.

        Raises:
            Conflict: the sweep has changed since it was observed: observe again.
            KubeError: a call failed; what follows it in the plan was not done.
            RefusedError: a body was found invalid before it was sent.
        """
        work = _Pass(self, observed)
        for action in plan.actions:
            name = type(action).__name__
            try:
                await work.do(action)
            except Exception:
                self._metrics.actions.labels(name, "failed").inc()
                raise
            self._metrics.actions.labels(name, "done").inc()


class _Pass:
    """One plan for one observation. `version` follows our own writes to the sweep."""

    def __init__(self, owner: Applier, observed: Observed) -> None:
        self._kube, self._looks, self._recorder = owner._kube, owner._looks, owner._recorder
        self._memory, self._now = owner._memory, owner._now
        self._observed = observed
        self._sweep: SweepView = observed.sweep
        self._key = SweepKey(observed.sweep.namespace, observed.sweep.name)
        self._version = observed.sweep.resource_version
        self._holds: dict[str, HoldView] = {}
        if isinstance(observed.hold, HoldView):
            self._holds[observed.hold.name] = observed.hold

    async def do(self, action: model.Action) -> None:
        match action:
            case model.AddFinalizer():
                await self._finalizers([*(f for f in self._sweep.finalizers if f != FINALIZER), FINALIZER])
                crash_point("after-finalizer")
            case model.RemoveFinalizer():
                await self._remove_finalizer()
            case model.WriteStatus(status):
                body = status.model_dump(mode="json", by_alias=True, exclude_none=True)
                await self._write_status(body)
                crash_point("after-status")
            case model.EnsureHold(name, attempt):
                await self._ensure_hold(name, attempt)
                crash_point("after-hold")
            case model.CreateRayJob(body, hold):
                await self._create_ray_job(body, hold)
                crash_point("after-post")
            case model.RepairHoldReference(ray_job, hold, attempt):
                await self._repair_hold(ray_job, hold, attempt)
            case model.PatchControl(pod, control):
                await self._patch_control(pod, control.to_json().decode())
                if control.verdict is not None:
                    crash_point("after-verdict")
            case model.PatchRayJob(name, uid, spec):
                await self._patch_ray_job(name, uid, spec)
                if "ttlSecondsAfterFinished" in spec:
                    crash_point("after-ttl")
            case model.DeleteRayJob(name, uid):
                await self._delete(RAY_JOB, name, uid)
            case model.DeleteRayCluster(name, uid):
                await self._delete(RAY_CLUSTER, name, uid)
            case model.DeleteHold(name):
                await self._delete(HOLD, name, "")
            case model.Settle():
                self._settle(action)
            case model.EmitEvent():
                await self._recorder.emit(self._sweep, action)

    # ------------------------------------------------------------------ the sweep itself

    async def _finalizers(self, wanted: list[str]) -> None:
        # A merge patch with a resourceVersion: the same condition as a JSON patch with a test, but a clear 409.
        body = {"metadata": {"uid": self._sweep.uid, "resourceVersion": self._version, "finalizers": wanted}}
        try:
            done = await self._kube.merge_patch(SWEEP, self._sweep.name, body, self._sweep.namespace)
        except NotFound as error:
            raise Conflict(f"the sweep is gone: {error.message}") from None
        self._version = text(mapping(done.get("metadata")).get("resourceVersion")) or self._version

    async def _remove_finalizer(self) -> None:
        try:
            await self._finalizers([f for f in self._sweep.finalizers if f != FINALIZER])
        except Invalid as error:
            # Finalizers can only shrink while an object is being deleted: somebody else removed one meanwhile.
            raise Conflict(error.message) from None

    async def _write_status(self, status: Mapping[str, Any]) -> None:
        body = {
            "apiVersion": SWEEP.api_version,
            "kind": SWEEP.kind,
            "metadata": {
                "name": self._sweep.name,
                "namespace": self._sweep.namespace,
                "uid": self._sweep.uid,
                "resourceVersion": self._version,
            },
            "status": dict(status),
        }
        try:
            done = await self._kube.put_status(SWEEP, self._sweep.name, body, self._sweep.namespace)
        except NotFound as error:
            raise Conflict(f"the sweep is gone: {error.message}") from None
        self._version = text(mapping(done.get("metadata")).get("resourceVersion")) or self._version
        self._memory.status_written[self._key] = self._now()

    # ------------------------------------------------------------------ what belongs to an attempt

    async def _ensure_hold(self, name: str, attempt: int) -> HoldView:
        if name in self._holds:
            return self._holds[name]
        body = {
            "apiVersion": HOLD.api_version,
            "kind": HOLD.kind,
            "metadata": {
                "name": name,
                "namespace": self._sweep.namespace,
                "labels": labels.identity(self._sweep.name, self._sweep.uid, attempt),
            },
        }
        made = await self._creating(HOLD, body)
        if made is None:
            made = await self._kube.get(HOLD, name, self._sweep.namespace)
        hold = hold_view(made)
        self._holds[name] = hold
        return hold

    async def _creating(self, kind: Kind, body: Mapping[str, Any]) -> Object | None:
        """Creates; None where the name is taken. What the API server refuses for good is remembered and told."""
        name = text(mapping(body.get("metadata")).get("name"))
        try:
            made = await self._kube.create(kind, body, self._sweep.namespace)
        except Conflict:
            return None
        except (Denied, Invalid) as error:
            await self._refused(f"{kind.kind} {name} was refused: {error.message}")
            raise
        self._memory.refusals.pop(self._key, None)
        return made

    async def _refused(self, message: str) -> None:
        if self._memory.refusals.get(self._key) != message:
            self._memory.refusals[self._key] = message
            await self._recorder.emit(self._sweep, EmitEvent("Warning", "CreateRefused", message))

    async def _create_ray_job(self, rendered: Mapping[str, Any], hold: str) -> None:
        if hold not in self._holds:
            self._holds[hold] = hold_view(await self._kube.get(HOLD, hold, self._sweep.namespace))
        body = copy.deepcopy(dict(rendered))
        owners = owner_references(self._sweep.name, self._sweep.uid, hold, self._holds[hold].uid)
        body["metadata"] = {**body.get("metadata", {}), "ownerReferences": owners}
        problems = _problems(body)
        if problems:
            await self._refused(f"RayJob {body['metadata'].get('name')} would be refused: {'; '.join(problems)}")
            raise RefusedError("; ".join(problems))
        if await self._creating(RAY_JOB, body) is None:
            _log.info("%s: RayJob %s is there already", self._key, body["metadata"].get("name"))

    async def _repair_hold(self, ray_job: str, hold: str, attempt: int) -> None:
        uid = (await self._ensure_hold(hold, attempt)).uid
        try:
            body = await self._kube.get(RAY_JOB, ray_job, self._sweep.namespace)
        except NotFound:
            return
        meta = mapping(body.get("metadata"))
        if mapping(meta.get("labels")).get(labels.SWEEP_UID) != self._sweep.uid:
            return
        owners = items(meta.get("ownerReferences"))
        if any(o.get("kind") == HOLD.kind and o.get("uid") == uid for o in owners):
            return
        ours = owner_references(self._sweep.name, self._sweep.uid, hold, uid)
        kept = [dict(o) for o in owners if o.get("kind") != HOLD.kind]
        wanted = [*kept, *(o for o in ours if o["kind"] == HOLD.kind)]
        patch = {
            "metadata": {
                "uid": meta.get("uid"),
                "resourceVersion": meta.get("resourceVersion"),
                "ownerReferences": wanted,
            }
        }
        await self._patching(RAY_JOB, ray_job, patch)

    async def _patching(self, kind: Kind, name: str, patch: Mapping[str, Any]) -> None:
        try:
            await self._kube.merge_patch(kind, name, patch, self._sweep.namespace)
        except NotFound:
            return  # gone meanwhile: the next pass sees it
        except (Denied, Invalid) as error:
            await self._refused(f"a change of {kind.kind} {name} was refused: {error.message}")
            raise

    async def _patch_control(self, pod: str, control: str) -> None:
        seen = self._observed.pods
        uid = next((p.uid for p in seen if p.name == pod), "") if isinstance(seen, tuple) else ""
        meta: dict[str, Any] = {"annotations": {labels.CONTROL: control}}
        if uid:
            meta["uid"] = uid
        await self._patching(POD, pod, {"metadata": meta})

    async def _patch_ray_job(self, name: str, uid: str, spec: Mapping[str, Any]) -> None:
        try:
            body = await self._kube.get(RAY_JOB, name, self._sweep.namespace)
        except NotFound:
            return
        if mapping(body.get("metadata")).get("uid") != uid:
            return
        before = set(_problems(body))
        merged = {**body, "spec": {**mapping(body.get("spec")), **spec}}
        # What is wrong already was so before us and must not keep us from ending a lease.
        worse = [p for p in _problems(merged) if p not in before]
        if worse:
            raise RefusedError(f"RayJob {name} would be refused after the change: {'; '.join(worse)}")
        await self._patching(RAY_JOB, name, {"metadata": {"uid": uid}, "spec": dict(spec)})

    async def _delete(self, kind: Kind, name: str, uid: str) -> None:
        try:
            await self._kube.delete(kind, name, self._sweep.namespace, uid=uid)
        except NotFound:
            return
        except Conflict:
            _log.info("%s: %s %s is another one by now", self._key, kind.kind, name)

    def _settle(self, action: model.Settle) -> None:
        access = access_of(self._sweep, self._observed.sweep_class)
        if access is None:
            access = Unreadable("the run's place is not known")
        if isinstance(access, Unreadable):
            self._looks.refuse(self._key, self._sweep.uid, action, access)
        else:
            self._looks.start(self._key, access, action)


def _problems(body: Mapping[str, Any]) -> list[str]:
    kueue = labels.QUEUE in mapping(mapping(body.get("metadata")).get("labels"))
    return check(body, kueue=kueue)
