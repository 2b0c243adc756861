"""One simulated world: a virtual clock, the doubles, and an operator that dies and comes back."""

from __future__ import annotations

import heapq
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

from tests.simulation.apiserver import Server
from tests.simulation.checks import Checks, condition
from tests.simulation.driver import Behaviour, Driver
from tests.simulation.kuberay import KubeRay, attempt_of
from tests.simulation.shell import Crash, Odds, Process
from tests.simulation.store import Store
from trainsweep.contract import labels
from trainsweep.contract.layout import attempt_id
from trainsweep.core.draft import _meaning
from trainsweep.core.model import Observed, Plan
from trainsweep.runtime.kube import HOLD, POD, RAY_CLUSTER, RAY_JOB, SWEEP, SWEEP_CLASS, Object

START = 1_750_000_000.0
SPEC: dict[str, Any] = {
    "objective": {"metric": "val_loss", "mode": "Minimize"},
    "search": {
        "algorithm": {"random": {"seed": 7}},
        "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1, "log": True}}],
    },
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {
        "entrypoint": "train:loop",
        "image": "registry.example/train:1",
        "workers": {"count": 1, "resources": {"cpu": 1, "memory": "1Gi"}},
    },
    "storage": {"uri": "s3://bucket/team"},
    "checkpoints": {"verify": {"timeoutSeconds": 60}},
    "cleanup": {
        "holdSeconds": 100,
        "maxHoldSeconds": 300,
        "deletionGraceSeconds": 200,
        "stopGraceSeconds": 10,
        "rayJobTTLSeconds": 1200,
    },
    "deadlines": {"startupSeconds": 200},
    "failurePolicy": {"backoff": {"initialSeconds": 5, "maxSeconds": 30}},
}


class World:
    """Everything there is. `advance(until)` lets it go on; the operator's passes are events among the others."""

    def __init__(self, rng: random.Random, spec: dict[str, Any]) -> None:
        self.rng, self.now = rng, START
        self.odds = Odds()
        self.behave: Callable[[int], Behaviour] = lambda _: Behaviour()
        self.log: list[str] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.store, self.drivers = Store(), []
        self.no_nodes_until = 0.0
        self.lost_watch = self.skew = 0.0
        self.checks = Checks(self)
        self.server = Server(lambda: self.now, self._changed)
        self.kuberay = KubeRay(self, checks_out=rng.random() < 0.3)
        self._of_job: dict[str, str] = {}
        self._collecting = False
        self.process = 0
        self.recreating = 0
        self.measured = 0
        """Status writes for progress and pending alone."""
        self._operator: Process | None = None
        self._busy = self._dirty = False
        self._due: float | None = None
        allowed = {"storage": {"allowedPrefixes": ["s3://bucket"]}}
        mark = {"trainsweep.io/is-default-class": "true"}
        self.server.create(SWEEP_CLASS, {"metadata": {"name": "default", "annotations": mark}, "spec": allowed})
        self.spec = spec
        self.apply_sweep()
        self.start_operator()

    drivers: list[Driver]

    # ------------------------------------------------------------------ time

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._order), what))

    def advance(self, until: float) -> None:
        """Runs what is due."""
        while self._events and self._events[0][0] <= until:
            when, _, what = heapq.heappop(self._events)
            self.now = max(self.now, when)
            what()
        self.now = max(self.now, until)

    def run(self, until: float, done: Callable[[], bool]) -> bool:
        """Goes on until something holds; False when the time is over before."""
        while not done():
            if not self._events or self._events[0][0] > until:
                return False
            self.advance(self._events[0][0])
        return True

    def note(self, text: str) -> None:
        self.log.append(f"{self.now - START:9.2f} {text}")

    # ------------------------------------------------------------------ changes

    def _changed(self, plural: str, before: Object | None, after: Object | None) -> None:
        self.checks.on_change(plural, before, after)
        body = after or before
        assert body is not None
        name = body["metadata"]["name"]
        if plural == RAY_JOB.plural and after is not None:
            self.kuberay.wake(name)
        if plural == POD.plural and after is not None and before is not None:
            gone = after["metadata"].get("deletionTimestamp")
            if gone and not before["metadata"].get("deletionTimestamp"):
                self.kuberay.terminate(after)
        if after is None or after["metadata"].get("deletionTimestamp"):
            self._collect_soon()
        if plural in (SWEEP.plural, RAY_JOB.plural, RAY_CLUSTER.plural) and self.rng.random() >= self.lost_watch:
            self.enqueue(0.05)

    def _collect_soon(self) -> None:
        if not self._collecting:
            self._collecting = True
            self.at(self.now + self.rng.uniform(0.3, 3), self._collect)

    def _collect(self) -> None:
        self._collecting = False
        if self.server.collect():
            self._collect_soon()

    # ------------------------------------------------------------------ the operator

    def start_operator(self) -> None:
        self.process += 1
        self._operator = Process(self)
        self.enqueue(0.1)
        self._resync(self.process)

    def _resync(self, process: int) -> None:
        if process == self.process and self._operator is not None:
            self.enqueue(0.0)
            self.at(self.now + self.rng.uniform(500, 700), lambda: self._resync(process))

    def enqueue(self, after: float) -> None:
        """The sweep's key is due; of several times the earliest counts."""
        if self._operator is None:
            return
        if self._busy:
            self._dirty = True
            return
        when = self.now + after
        if self._due is None or when < self._due:
            self._due = when
            process = self.process
            self.at(when, lambda: self._pass(when, process))

    def _pass(self, when: float, process: int) -> None:
        if self._operator is None or process != self.process or self._due != when or self._busy:
            return
        self._due, self._busy = None, True
        try:
            pause = self._operator.reconcile()
        except Crash as death:
            self._die(f"the operator dies {death}")
            return
        finally:
            self._busy = False
        if self._dirty:
            self._dirty = False
            pause = min(pause, 0.1) if pause is not None else 0.1
        if pause is not None:
            self.enqueue(pause)

    def kill_operator(self, away: float) -> None:
        if self._operator is not None and not self._busy:
            self._die("the operator is killed", away)

    def _die(self, why: str, away: float | None = None) -> None:
        self.note(why)
        self._operator, self._due, self._dirty = None, None, False
        self.process += 1
        pause = away if away is not None else self.rng.choice((1.0, 5.0, 30.0))
        self.at(self.now + pause, self.start_operator)

    def planned(self, observed: Observed, plan: Plan) -> None:
        if plan.status is not None and _meaning(plan.status) == _meaning(observed.sweep.status):
            self.measured += 1
        if plan.actions:
            self.note("plan " + " ".join(_brief(a) for a in plan.actions))

    # ------------------------------------------------------------------ the sweep

    def apply_sweep(self) -> None:
        self.server.create(SWEEP, {"metadata": {"name": "digits", "labels": {}}, "spec": self.spec})

    def sweep(self) -> Object | None:
        return self.server.find(SWEEP, "digits")

    def uid8(self) -> str:
        found = self.sweep()
        return attempt_id(1, found["metadata"]["uid"])[2:] if found is not None else ""

    def setting(self, *path: str) -> int:
        found = self.sweep()
        node: Any = found["spec"] if found is not None else self.spec
        for part in path:
            node = node[part]
        return int(node)

    def grace(self) -> int:
        return self.setting("cleanup", "deletionGraceSeconds")

    def max_hold(self) -> int:
        return self.setting("cleanup", "maxHoldSeconds")

    def finished(self) -> bool:
        found = self.sweep()
        return found is not None and condition(found, "Finished")[0] == "True"

    def at_rest(self) -> bool:
        """Terminal, released, without finalizer and hold; or gone without a trace."""
        if self.recreating:
            return False
        found = self.sweep()
        left = [*self.server.all(POD), *self.server.all(HOLD), *self.server.all(RAY_CLUSTER)]
        if found is None:
            return not left and not list(self.server.all(RAY_JOB))
        if found["metadata"].get("deletionTimestamp"):
            return False
        over = condition(found, "Finished")[0] == "True" and condition(found, "Released")[0] == "True"
        return over and not left and not found["metadata"].get("finalizers")

    def someone_annotates(self) -> None:
        found = self.sweep()
        if found is not None:
            mark = {"example.com/seen": str(self.rng.random())}
            self.server.patch(SWEEP, "digits", {"metadata": {"annotations": mark}})

    # ------------------------------------------------------------------ drivers

    def driver_on(self, pod_uid: str) -> Driver | None:
        return next((d for d in reversed(self.drivers) if d.pod_uid == pod_uid), None)

    def driver_of(self, job_uid: str) -> Driver | None:
        pod = self._of_job.get(job_uid)
        found = self.driver_on(pod) if pod else None
        return found if found is not None and found.alive else None

    def submit(self, job: Object, head: Object) -> None:
        """KubeRay submits the entrypoint to the head."""
        told = json.loads(head["metadata"]["annotations"][labels.SWEEP])
        number = attempt_of(job)
        how = self.behave(number)
        driver = Driver(
            world=self,
            store=self.store,
            attempt=told["attemptId"],
            pod=head["metadata"]["name"],
            pod_uid=head["metadata"]["uid"],
            timeout=float(told["spec"]["checkpoints"]["verify"]["timeoutSeconds"]),
            tolerant=told["spec"]["checkpoints"]["verify"]["onMissing"] == "Warn",
            deadline=told.get("deadlineAt"),
            how=how,
            started=self.now,
        )
        self.note(f"driver {driver.attempt} starts {how}")
        self.drivers.append(driver)
        self._of_job[job["metadata"]["uid"]] = head["metadata"]["uid"]
        driver.begin()


def _brief(action: object) -> str:
    name = type(action).__name__
    status = getattr(action, "status", None)
    if status is not None:
        last = status.attempts[-1] if status.attempts else None
        state = next((f"{c.status}/{c.reason}" for c in status.conditions if c.type == "Succeeded"), "")
        marks = ""
        if last is not None:
            stamps = ("ready_at", "stop_reason", "ended_at", "settled_at", "released_at", "gone_at")
            marks = f"a{last.number}:" + ",".join(s.removesuffix("_at") for s in stamps if getattr(last, s))
            marks += f"({last.reason})" if last.reason else ""
        return f"{name}[{state} {marks}]"
    reason = getattr(action, "reason", None)
    spec = getattr(action, "spec", None)
    return f"{name}[{reason or spec or ''}]" if reason or spec else name


__all__ = ["SPEC", "START", "World"]
