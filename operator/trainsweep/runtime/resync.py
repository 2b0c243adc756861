"""What no event tells: a full comparison every few minutes, and holds, RayJobs and RayClusters whose sweep is gone.

A re-list of a watch sends no DELETED for what vanished meanwhile, so absence from events proves nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from trainsweep.api.conditions import Condition
from trainsweep.contract import labels
from trainsweep.core.model import FINALIZER
from trainsweep.render.rayjob import rayjob_name
from trainsweep.runtime.keys import SweepKey, sweep_key
from trainsweep.runtime.kube import HOLD, RAY_CLUSTER, RAY_JOB, SWEEP, Conflict, Kind, Kube, KubeError, NotFound, Object
from trainsweep.runtime.views import is_orphan, items, mapping, strings, text, whole

_log = logging.getLogger(__name__)
PAGE = 500
ORPHAN_SECONDS = 3600.0
"""A live RayJob or RayCluster without its sweep is left for this long after it was first seen: nobody will settle it."""


async def pages(kube: Kube, kind: Kind, namespaces: Sequence[str], selector: str = "") -> AsyncIterator[Object]:
    """All objects of a kind in what is served, page by page."""
    for namespace in namespaces or ("",):
        token = ""
        while True:
            found, token = await kube.page(kind, namespace, labels=selector, limit=PAGE, token=token)
            for item in found:
                yield item
            if not token:
                break


def at_rest(body: Mapping[str, Any]) -> bool:
    """Whether a sweep is terminal, holds nothing and is not being deleted: a resync passes it by."""
    meta, status = mapping(body.get("metadata")), mapping(body.get("status"))
    if meta.get("deletionTimestamp") is not None or FINALIZER in (meta.get("finalizers") or ()):
        return False
    return any(
        c.get("type") == Condition.FINISHED and c.get("status") == "True" for c in items(status.get("conditions"))
    )


async def resync(kube: Kube, namespaces: Sequence[str], held: set[SweepKey], add: Callable[[SweepKey], None]) -> int:
    """Enqueues every sweep that is not at rest, and every one that we hold something of and that is not listed.

    Raises:
        KubeError: where the list could not be had; nothing is then concluded from what is absent.
    """
    listed: set[SweepKey] = set()
    number = 0
    async for body in pages(kube, SWEEP, namespaces):
        key = sweep_key(body)
        if key is None:
            continue
        listed.add(key)
        if not at_rest(body):
            add(key)
            number += 1
    for key in held - listed:
        add(key)
        number += 1
    return number


class Orphans:
    """Holds, RayJobs and RayClusters that outlived their sweep, or the attempt that they belong to."""

    def __init__(self, kube: Kube, namespaces: Sequence[str], now: Callable[[], float] = time.monotonic) -> None:
        self._kube, self._namespaces, self._now = kube, namespaces, now
        self._seen: dict[str, float] = {}

    async def sweep(self) -> int:
        """Removes what may go; gives back how many.

        Raises:
            KubeError: where something could not be read.
        """
        removed, present = 0, set()
        for kind in (HOLD, RAY_JOB, RAY_CLUSTER):
            async for body in pages(self._kube, kind, self._namespaces, f"{labels.MANAGED}=true"):
                meta = mapping(body.get("metadata"))
                uid = text(meta.get("uid"))
                if await self._may_go(kind, body):
                    removed += await self._remove(kind, meta)
                else:
                    present.add(uid)
        self._seen = {u: t for u, t in self._seen.items() if u in present}
        return removed

    async def _remove(self, kind: Kind, meta: Mapping[str, Any]) -> int:
        name, namespace = text(meta.get("name")), text(meta.get("namespace"))
        try:
            await self._kube.delete(kind, name, namespace, uid=text(meta.get("uid")))
        except (NotFound, Conflict):
            return 0
        _log.info("removed %s %s/%s: its sweep is gone, or has gone on without it", kind.kind, namespace, name)
        return 1

    async def _may_go(self, kind: Kind, body: Object) -> bool:
        meta = mapping(body.get("metadata"))
        namespace, marks, name = text(meta.get("namespace")), strings(meta.get("labels")), text(meta.get("name"))
        owner, uid = marks.get(labels.SWEEP_NAME, ""), marks.get(labels.SWEEP_UID, "")
        if not owner or not uid or (kind is HOLD and not name.endswith("-hold")):
            return False  # not made by us: not ours to remove
        if meta.get("deletionTimestamp") is not None:
            return False
        sweep = await self._found(SWEEP, owner, namespace)
        mine = sweep is not None and mapping(sweep.get("metadata")).get("uid") == uid
        if kind is RAY_CLUSTER:
            return await self._cluster_may_go(body, sweep if mine else None, owner, uid)
        if mine and kind is HOLD:
            return False
        job = body if kind is RAY_JOB else await self._found(RAY_JOB, name.removesuffix("-hold"), namespace)
        if job is None:
            return True
        ended = mapping(job.get("status")).get("jobDeploymentStatus") in ("Complete", "Failed")
        if mine:
            return ended and _followed(sweep or {}, marks.get(labels.ATTEMPT, ""))
        return ended or self._waited(meta)

    async def _cluster_may_go(self, body: Object, sweep: Object | None, owner: str, uid: str) -> bool:
        """A RayCluster that its RayJob left behind, whose attempt nobody settles any more, or has settled and let go."""
        meta = mapping(body.get("metadata"))
        number = strings(meta.get("labels")).get(labels.ATTEMPT, "")
        if not is_orphan(body) or not number.isdigit():
            return False
        job = await self._found(RAY_JOB, rayjob_name(owner, uid, int(number)), text(meta.get("namespace")))
        if job is not None and strings(mapping(job.get("metadata")).get("labels")).get(labels.SWEEP_UID) == uid:
            return False  # it is on its way out, or was made again
        return self._waited(meta) if sweep is None else _followed(sweep, number) or _let_go(sweep)

    def _waited(self, meta: Mapping[str, Any]) -> bool:
        """Whether its driver has had the time to end by itself; nobody asks it to, since its sweep is gone."""
        since = self._seen.setdefault(text(meta.get("uid")), self._now())
        return self._now() - since >= ORPHAN_SECONDS

    async def _found(self, kind: Kind, name: str, namespace: str) -> Object | None:
        try:
            return await self._kube.get(kind, name, namespace)
        except NotFound:
            return None


def _followed(sweep: Object, attempt: str) -> bool:
    """Whether a later attempt of the sweep is recorded: the earlier one was settled and gone before."""
    newest = whole(mapping(sweep.get("status")).get("attempt")) or 0
    return attempt.isdigit() and int(attempt) < newest


def _let_go(sweep: Object) -> bool:
    """Whether the newest attempt is recorded as gone."""
    attempts = items(mapping(sweep.get("status")).get("attempts"))
    return bool(attempts) and attempts[-1].get("goneAt") is not None


async def repeat(
    every: float, work: Callable[[], Any], what: str, *, first: bool, draw: Callable[[], float] = random.random
) -> None:
    """Does something again and again with a jittered pause; a failure is logged and waits for the next time."""

    def pause() -> float:
        return every * (0.9 + 0.2 * draw())

    if not first:
        await asyncio.sleep(pause())
    while True:
        try:
            await work()
        except KubeError as error:
            _log.warning("%s: %s %s", what, type(error).__name__, error.message)
        except Exception:
            _log.exception("%s failed", what)
        await asyncio.sleep(pause())
