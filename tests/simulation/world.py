"""One simulated world: a virtual clock, the doubles, and an operator that dies and comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextvars import Context
from typing import Any

from tests.simulation.apiserver import Server
from tests.simulation.checks import Checks, condition
from tests.simulation.clock import Clock
from tests.simulation.driver import Behaviour, Driver
from tests.simulation.faults import Faults, Odds
from tests.simulation.kuberay import KubeRay, attempt_of
from tests.simulation.process import Process
from tests.simulation.store import Store
from trainsweep.contract import labels
from trainsweep.contract.documents import Limits
from trainsweep.contract.layout import attempt_id
from trainsweep.core.draft import _meaning
from trainsweep.core.model import Observed, Plan
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.kube import (
    HOLD,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    SWEEP,
    SWEEP_CLASS,
    Denied,
    KubeError,
    Object,
)

START = 1_750_000_000.0
LOOK_EVERY = 5.0
OTHER = "example.com/other"
"""A finalizer of somebody else on the sweep."""
KINDS = {kind.plural: kind for kind in (SWEEP, SWEEP_CLASS, RAY_JOB, RAY_CLUSTER)}
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
    """Everything there is: one event loop on virtual time, the doubles, and the operator that dies and comes back."""

    def __init__(self, rng: random.Random, spec: dict[str, Any], faults: Faults | None = None) -> None:
        self.rng, self.key = rng, SweepKey("team", "digits")
        self.clock, self._plain = Clock(START), Context()
        self.faults = faults or Faults(Odds())
        self.behave: Callable[[int], Behaviour] = lambda _: Behaviour()
        self.log: list[str] = []
        self.store, self.drivers = Store(), []
        self.no_nodes_until = self.bad_image_until = self.api_away_until = self.forbidden_until = self.refuses_until = (
            0.0
        )
        self.refusal: KubeError = Denied("no")
        self.allowed_prefix = "s3://bucket"
        self.lost_watch = self.skew = 0.0
        self.busy = random.Random(0)  # noqa: S311  # a schedule, no secret
        """Of its own: whether the store turns a request away changes no other draw."""
        self.away_until = self.denied_until = 0.0
        """No process is started; the store refuses the operator, and only it."""
        self.checks = Checks(self)
        self.server = Server(self.clock.time, self._changed)
        self.kuberay = KubeRay(self, checks_out=rng.random() < 0.3)
        self._of_job: dict[str, str] = {}
        self._collecting = False
        self.recreating = 0
        self.takes_names = False
        """Whether somebody makes a RayJob of their own under the name of the next one that goes."""
        self.measured = 0
        """Status writes for progress and pending alone."""
        self.last_word = "never finished"
        """Reason of the last terminal condition."""
        self.processes: list[Process] = []
        """Those that live."""
        self._started = 0
        allowed = {"storage": {"allowedPrefixes": [self.allowed_prefix]}}
        mark = {"trainsweep.io/is-default-class": "true"}
        self.server.create(SWEEP_CLASS, {"metadata": {"name": "default", "annotations": mark}, "spec": allowed})
        self.spec = spec
        self.apply_sweep()
        self.start_process()

    drivers: list[Driver]

    # ------------------------------------------------------------------ time

    @property
    def now(self) -> float:
        return self.clock.time()

    def at(self, when: float, what: Callable[[], None]) -> None:
        # In a context of its own: what a call of the operator sets off is no call of the operator.
        self.clock.call_at(max(when, self.now), what, context=self._plain)

    def advance(self, until: float) -> None:
        """Runs what is due; raises what has failed."""
        self.clock.until(until)

    def run(self, until: float, done: Callable[[], bool]) -> bool:
        """Goes on until something holds; False when the time is over before."""
        while not done():
            if self.now >= until:
                return False
            self.advance(self.now + LOOK_EVERY)
        return True

    def close(self) -> None:
        """Nothing happens any more."""
        for process in self.processes:
            process.kill()
        self.clock.drain()
        self.clock.close()

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
        if plural == RAY_JOB.plural and after is None and self.takes_names and not body["spec"].get("foreign"):
            self.takes_names = False
            self.at(self.now + 0.3, lambda: self.take(name))
        kind = KINDS.get(plural)
        if kind is not None:
            for process in self.processes:
                process.informer.changed(kind, body)

    def _collect_soon(self) -> None:
        if not self._collecting:
            self._collecting = True
            self.at(self.now + self.rng.uniform(0.3, 3), self._collect)

    def _collect(self) -> None:
        self._collecting = False
        if self.server.collect():
            self._collect_soon()

    # ------------------------------------------------------------------ the operator

    def start_process(self, lives: float | None = None) -> None:
        """A process of the operator; with `lives` it ends then and does not come back."""
        self._started += 1
        process = Process(self, self._started)
        self.processes.append(process)
        if lives is not None:
            self.at(self.now + lives, lambda: self.killed(process, 1.0))

    def enqueue(self) -> None:
        """A pass is due, for whatever reason."""
        for process in self.processes:
            self.clock.call_soon(process.queue.add, self.key)

    def killed(self, process: Process, away: float | None = None) -> None:
        """A process is dead; another one follows, if it was the last."""
        if process.alive:
            process.kill()
            self.processes.remove(process)
        pause = away if away is not None else self.rng.choice((1.0, 5.0, 30.0))
        self.at(self.now + pause, self._come_back)

    def _come_back(self) -> None:
        if self.now < self.away_until:
            self.at(self.away_until + 1.0, self._come_back)
        elif not self.processes:
            self.start_process()

    def kill_operator(self, away: float) -> None:
        self.away_until = max(self.away_until, self.now + away)
        for process in list(self.processes):
            self.note(f"operator {process.number} is killed")
            self.faults.made["killed"] += 1
            self.killed(process, away)

    def planned(self, observed: Observed, plan: Plan) -> None:
        if plan.status is not None and _meaning(plan.status) == _meaning(observed.sweep.status):
            self.measured += 1
        self.checks.on_plan(observed, plan)
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

    def take(self, name: str) -> None:
        """A RayJob of somebody else, for a while. It has nothing that KubeRay would work on: its name is in the way.

        Its annotations may be copied from ours; our labels are not.
        """
        if self.server.find(RAY_JOB, name) is not None:
            return
        attempts = ((self.sweep() or {}).get("status") or {}).get("attempts", [])
        copied = {labels.DIGEST: attempts[-1].get("specDigest", "")} if attempts else {}
        foreign = {"metadata": {"name": name, "labels": {}, "annotations": copied}, "spec": {"foreign": True}}
        uid = self.server.create(RAY_JOB, foreign)["metadata"]["uid"]

        def taken_away() -> None:
            there = self.server.find(RAY_JOB, name)
            if there is not None and there["metadata"]["uid"] == uid:
                self.server.delete(RAY_JOB, name)
            else:
                self.checks.fail("I2", f"RayJob {name} of somebody else is gone")

        self.at(self.now + self.rng.uniform(20, 90), taken_away)

    def someone_annotates(self) -> None:
        found = self.sweep()
        if found is not None:
            mark = {"example.com/seen": str(self.rng.random())}
            change: dict[str, Any] = {"annotations": mark}
            if not found["metadata"].get("deletionTimestamp") and self.rng.random() < 0.5:
                others = [f for f in found["metadata"].get("finalizers") or () if f != OTHER]
                change["finalizers"] = [*others, OTHER]
            self.server.patch(SWEEP, "digits", {"metadata": change})

    def others_let_go(self) -> None:
        """The finalizer of somebody else goes."""
        found = self.sweep()
        if found is not None and OTHER in (found["metadata"].get("finalizers") or ()):
            left = [f for f in found["metadata"]["finalizers"] if f != OTHER]
            self.server.patch(SWEEP, "digits", {"metadata": {"finalizers": left}})

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
            limits=Limits.model_validate(told["limits"]),
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
