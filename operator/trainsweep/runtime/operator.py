"""The process: kopf as the informer, our queue and workers beside it. The only module that imports kopf.

Kopf gets nothing but `on.event` handlers that return None, so it writes nothing to any object; its storages are null,
which is valid only while no other kind of handler is registered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf

from trainsweep import api
from trainsweep.contract import labels
from trainsweep.core.decide import decide
from trainsweep.runtime import probes
from trainsweep.runtime.apply import Applier
from trainsweep.runtime.classes import Classes
from trainsweep.runtime.glance import Glances
from trainsweep.runtime.keys import SweepKey, child_key, sweep_key
from trainsweep.runtime.kube import RAY_CLUSTER, RAY_JOB, SWEEP, SWEEP_CLASS, Kind
from trainsweep.runtime.kube_client import KubeClient, load_configuration
from trainsweep.runtime.ledger import Ledger
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.memory import Memory
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.observe import Observer
from trainsweep.runtime.reconciler import Reconciler
from trainsweep.runtime.recorder import Recorder
from trainsweep.runtime.resync import Orphans, repeat, resync
from trainsweep.runtime.settings import Settings
from trainsweep.runtime.startup import detect_kuberay, wait_until_ready
from trainsweep.runtime.workqueue import WorkQueue

_log = logging.getLogger(__name__)
STUCK_SECONDS = 300.0
"""A ready sweep that waited longer than this for a worker: the process is not alive."""
LOGIN_MINUTES = 5


class _NullDiffBase(kopf.DiffBaseStorage):
    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        return {}

    def fetch(self, *, body: Any) -> Any:
        return None

    def store(self, *, body: Any, patch: Any, essence: Any) -> None:
        pass


class _NullProgress(kopf.ProgressStorage):
    def fetch(self, *, key: Any, body: Any) -> Any:
        return None

    def store(self, *, key: Any, record: Any, body: Any, patch: Any) -> None:
        pass

    def purge(self, *, key: Any, body: Any, patch: Any) -> None:
        pass

    def touch(self, *, body: Any, patch: Any, value: Any) -> None:
        pass

    def clear(self, *, essence: Any) -> Any:
        return essence


class EndlessBackoff:
    """Pauses of kopf's requests: outages are outlived, not died of. Permissions were checked at the start.

    Iterated anew for each request, so it must be a class and not a generator.
    """

    def __iter__(self) -> Any:
        yield from (1, 1, 2, 3, 5, 8, 13, 21)
        while True:
            yield 30


def kopf_settings() -> kopf.OperatorSettings:
    """How kopf watches for us; each value has a measured reason in the design's notes."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # less RBAC; that all kinds are served is checked at the start
    settings.posting.enabled = False  # Events are ours
    settings.queueing.idle_timeout = 0.5
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = EndlessBackoff()  # any re-iterable will do
    settings.persistence.diffbase_storage = _NullDiffBase()
    settings.persistence.progress_storage = _NullProgress()
    for kind in (RAY_JOB, RAY_CLUSTER):
        # KubeRay copies a RayJob's labels to its RayCluster.
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = f"{labels.MANAGED}=true"
    return settings


def registry(queue: WorkQueue[SweepKey], classes: Classes, memory: Memory) -> kopf.OperatorRegistry:
    """Handlers that turn every event into a key. Nothing of an event but its key is used."""
    found = kopf.OperatorRegistry()

    def on(kind: Kind, handler: Any) -> None:
        kopf.on.event(kind.group, kind.version, kind.plural, registry=found, id=f"on-{kind.plural}")(handler)

    async def on_sweep(body: Any, **_: Any) -> None:
        key = sweep_key(body)
        if key is not None:
            memory.changed(key)
            queue.add(key)

    async def on_child(body: Any, **_: Any) -> None:
        key = child_key(body, labels.SWEEP_NAME)
        if key is not None:
            memory.changed(key)
            queue.add(key)

    async def on_class(**_: Any) -> None:
        classes.stale()
        for key in list(memory.states):
            memory.changed(key)
            queue.add(key)

    on(SWEEP, on_sweep)
    on(RAY_JOB, on_child)
    on(RAY_CLUSTER, on_child)
    on(SWEEP_CLASS, on_class)

    @kopf.on.login(registry=found)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        # Read anew every few minutes: a projected token rotates, and kopf alone would notice by a 401.
        configuration = await load_configuration()
        token = str(configuration.api_key.get("BearerToken") or "").split()
        return kopf.ConnectionInfo(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
            scheme="Bearer" if token else None,
            token=token[-1] if token else None,
            expiration=datetime.now(UTC) + timedelta(minutes=LOGIN_MINUTES),
        )

    return found


class Process:
    """All parts of one operator process."""

    def __init__(self, settings: Settings, kube: KubeClient, metrics: Metrics) -> None:
        self.settings, self.kube, self.metrics = settings, kube, metrics
        self.queue: WorkQueue[SweepKey] = WorkQueue(on_wait=metrics.queue_wait_seconds.observe)
        self.memory = Memory()
        self.classes = Classes(kube)
        self.looks = Looks(self.queue.add, metrics, look_seconds=settings.look)
        self.ready = False
        self.ledger = Ledger(metrics)
        metrics.before = self.ledger.expose
        metrics.gauge("trainsweep_queue_depth", "Sweeps that wait for a worker.", lambda: float(len(self.queue)))
        metrics.gauge("trainsweep_queue_delayed", "Sweeps with a wake-up ahead.", lambda: float(self.queue.delayed))
        metrics.gauge(
            "trainsweep_queue_oldest_seconds", "How long the oldest ready sweep waits for a worker.", self._oldest
        )
        metrics.gauge(
            "trainsweep_api_last_success_age_seconds",
            "Seconds since the API server last answered.",
            lambda: time.monotonic() - kube.last_success,
        )

    def _oldest(self) -> float:
        try:
            return self.queue.oldest_wait()
        except RuntimeError:
            return 0.0  # no loop runs

    def alive(self) -> str:
        """What is wrong with the work, for the liveness probe."""
        try:
            waited = self.queue.oldest_wait()
        except RuntimeError:
            return ""
        return f"a sweep has waited {waited:.0f} s for a worker" if waited > STUCK_SECONDS else ""

    def is_ready(self) -> str:
        """What is missing, for the readiness probe."""
        return "" if self.ready else "not ready: see the log"

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Works until SIGTERM or `stop`. Raises what ended kopf, so that the pod is started anew."""
        kuberay = await detect_kuberay(self.kube)
        observer = Observer(self.kube, self.classes, self.looks, self.memory, kuberay)
        glances = Glances(observer.observe, self.looks, self.memory)
        applier = Applier(self.kube, self.looks, Recorder(self.kube), self.memory, self.metrics)
        reconciler = Reconciler(
            glances.observe,
            decide,
            applier.apply,
            self.queue,
            self.looks,
            self.memory,
            self.metrics,
            glance=glances.glance,
        )
        spaces = self.settings.namespaces
        orphans = Orphans(self.kube, spaces)
        observer.namespaces, reconciler.ledger = spaces, self.ledger

        async def compare() -> None:
            await resync(self.kube, spaces, self.looks.keys() | set(self.memory.states), self.queue.add)

        async def remove_orphans() -> None:
            self.metrics.orphans.inc(await orphans.sweep())

        async with asyncio.TaskGroup() as group:
            # Made before kopf starts: what is made after it counts as kopf's, and is cancelled when it ends.
            ours = [group.create_task(self.queue.clock())]
            ours += [group.create_task(self.queue.worker(reconciler.reconcile)) for _ in range(self.settings.workers)]
            ours.append(group.create_task(repeat(self.settings.resync, compare, "resync", first=False)))
            ours.append(group.create_task(repeat(self.settings.orphans, remove_orphans, "orphans", first=True)))
            self.ready = True
            try:
                await kopf.operator(
                    registry=registry(self.queue, self.classes, self.memory),
                    settings=kopf_settings(),
                    standalone=True,
                    # Without one kopf asks for the user's name, and a container's uid has none.
                    identity="trainsweep",
                    clusterwide=not spaces,
                    namespaces=list(spaces),
                    stop_flag=stop,
                )
            finally:
                self.ready = False
                for task in ours:
                    task.cancel()


async def run(settings: Settings, stop: asyncio.Event | None = None) -> int:
    """The whole life of the process; gives back its exit code."""
    metrics = Metrics()
    kube = KubeClient(
        await load_configuration(), writes_per_second=settings.writes_per_second, on_call=metrics.api_call
    )
    process = Process(settings, kube, metrics)
    web, port = await probes.serve(probes.application(metrics, process.alive, process.is_ready), settings.metrics_port)
    _log.info("TrainSweep operator for %s; probes and metrics on port %d", api.API_VERSION, port)
    try:
        missing = await wait_until_ready(kube, settings.namespaces, settings.startup)
        if missing:
            _log.error("giving up after %.0f s: %s", settings.startup, "; ".join(missing))
            return 1
        await process.run(stop)
    finally:
        with contextlib.suppress(Exception):
            await web.cleanup()
        with contextlib.suppress(Exception):
            await kube.close()
    return 0


def quiet(level: str) -> None:
    """Logging to standard error; kopf says one line for every handler call unless it is told not to."""
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("kopf.objects", "kopf.activities", "kopf._core.reactor", "botocore", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
