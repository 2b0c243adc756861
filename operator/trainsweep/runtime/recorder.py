"""Kubernetes Events on sweeps: deterministic names, so that a pass made again after a crash tells nothing twice."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from trainsweep.core.model import EmitEvent, SweepView
from trainsweep.runtime.kube import EVENT, SWEEP, Conflict, Kube, KubeError

_log = logging.getLogger(__name__)
COMPONENT = "trainsweep"
PER_HOUR = 30
"""Events of one sweep in an hour: whatever goes round in circles, it does not fill etcd."""


class Recorder:
    """Posts Events; a failure is logged and forgotten."""

    def __init__(self, kube: Kube, instance: str = "", now: Callable[[], float] = time.time) -> None:
        self._kube, self._instance, self._now = kube, instance or COMPONENT, now
        self._spent: dict[str, list[float]] = {}

    async def emit(self, sweep: SweepView, event: EmitEvent) -> None:
        """Posts one Event on the sweep."""
        now = self._now()
        recent = [t for t in self._spent.get(sweep.uid, []) if t > now - 3600]
        if len(recent) >= PER_HOUR:
            return
        if len(self._spent) > 10_000:
            self._spent.clear()
        self._spent[sweep.uid] = [*recent, now]
        try:
            await self._kube.create(EVENT, event_body(sweep, event, now, self._instance), sweep.namespace)
        except Conflict:
            pass  # told before
        except KubeError as error:
            _log.warning("%s/%s: Event %s: %s", sweep.namespace, sweep.name, event.reason, error.message)


def event_body(sweep: SweepView, event: EmitEvent, now: float, instance: str) -> dict[str, Any]:
    """The Event; its name follows from the sweep, its attempt and what is told."""
    told = f"{sweep.uid}/{sweep.status.attempt}/{event.type}/{event.reason}/{event.message}"
    when = datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {
            "name": f"{sweep.name}.{hashlib.sha256(told.encode()).hexdigest()[:16]}",
            "namespace": sweep.namespace,
        },
        "involvedObject": {
            "apiVersion": SWEEP.api_version,
            "kind": SWEEP.kind,
            "name": sweep.name,
            "namespace": sweep.namespace,
            "uid": sweep.uid,
        },
        "type": event.type,
        "reason": event.reason[:128],
        "message": event.message[:1024],
        "count": 1,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance[:128],
    }
