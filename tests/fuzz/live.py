"""Admitted random sweeps on a real cluster: each gets its word from the operator, and KubeRay refuses no RayJob of theirs.

A Kueue queue that admits nothing holds their RayJobs suspended, so that hundreds need no pod; a canary beside them must finish.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass, field
from typing import Any

from devcluster import sweeps
from devcluster.cluster import Cluster
from tests.e2e.lab import Lab, Sweep
from tests.fuzz.dryrun import sweep
from tests.integration.apiserver import ApiServer
from tests.unit.core.core_builders import Stage, only
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.core.model import ClassView, CreateRayJob

NAMESPACE = "fuzz"
WORD_SECONDS = 30.0
PATIENCE_SECONDS = 120.0
WAITING = 20
"""At most so many are without a word at once: the API server's two cores make them and look at them, too."""


@dataclass
class Live:
    """What became of them."""

    created: int = 0
    launched: int = 0
    """With an attempt, and so with a RayJob."""
    unlaunched: list[str] = field(default_factory=list)
    """Of those that must have one."""
    told: int = 0
    """Not admitted, with a reason."""
    slow: list[str] = field(default_factory=list)
    refused_by_kuberay: list[str] = field(default_factory=list)
    restarts: int = 0
    exceptions: list[str] = field(default_factory=list)
    canary: str = ""
    left: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """What must not be."""
        found = [f"no condition within {WORD_SECONDS:.0f} s: {x}" for x in self.slow]
        found += [f"ValidationFailed: {x}" for x in self.refused_by_kuberay]
        found += [f"operator: {x}" for x in self.exceptions[:5]]
        found += [f"still there after the delete: {x}" for x in self.left[:5]]
        if self.restarts:
            found.append(f"the operator restarted {self.restarts} times")
        if self.canary != "Completed":
            found.append(f"the canary ended as {self.canary!r}")
        found += [f"no RayJob: {x}" for x in self.unlaunched]
        return found


def held_queue() -> list[dict[str, Any]]:
    """A queue that takes workloads and admits none."""
    return [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ClusterQueue",
            "metadata": {"name": NAMESPACE},
            "spec": {"namespaceSelector": {}, "stopPolicy": "Hold", "resourceGroups": []},
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": {"name": NAMESPACE, "namespace": NAMESPACE},
            "spec": {"clusterQueue": NAMESPACE},
        },
    ]


def aimed(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec in the held queue, without what could not get to a RayJob here: a class or a store of its own, a suspension."""
    out = {key: value for key, value in copy.deepcopy(spec).items() if key not in ("storage", "className", "suspend")}
    out["scheduling"] = {**(out.get("scheduling") or {}), "queueName": NAMESPACE}
    out["scheduling"].pop("priorityClassName", None)
    return out


def launches(of_class: dict[str, Any], spec: dict[str, Any]) -> bool:
    """Whether a spec so aimed gets to a RayJob in its first pass, with the spec of the only class there is."""
    found = ClassView("default", "uid", 1, TrainSweepClassSpec.model_validate(of_class))
    return bool(only(Stage(spec=aimed(spec), sweep_class=found).decide(), CreateRayJob))


def run(cluster: Cluster, specs: list[dict[str, Any]], odd: list[dict[str, Any]]) -> Live:
    """Creates them all beside a canary, waits for their words, deletes them.

    Args:
        cluster: with operator, KubeRay and Kueue.
        specs: of which each gets a RayJob.
        odd: which the operator refuses, or suspends.
    """
    lab, live = Lab(cluster), Live()
    lab.loops()
    lab.namespace(NAMESPACE)
    for one in held_queue():
        sweeps.apply(cluster, one)
    api = ApiServer(cluster.kubeconfig)
    lab.apply("canary", {"training": {"config": {"epochs": 4, "seconds": 1}}})
    waiting: dict[str, float] = {}
    words: dict[str, Sweep] = {}
    for number, spec in enumerate([*map(aimed, specs), *odd]):
        body = sweep(spec, f"f{number}")
        status, answer = api.call("POST", api.path(body, NAMESPACE), body)
        if status >= 300:
            live.exceptions.append(f"f{number} was admitted dry and refused for real: {answer.get('message')}")
            continue
        waiting[f"f{number}"] = time.monotonic()
        live.created += 1
        while len(waiting) >= WAITING and time.monotonic() < min(waiting.values()) + PATIENCE_SECONDS:
            _collect(lab, waiting, words, live)
    until = time.monotonic() + PATIENCE_SECONDS
    while waiting and time.monotonic() < until:
        _collect(lab, waiting, words, live)
        time.sleep(1)
    live.slow += [f"{name} (never)" for name in waiting]
    time.sleep(10)
    jobs = _items(lab, "rayjobs")
    # Short deadlines have ended some attempts by now, whose RayJobs are gone again.
    sweeps_now = {item["metadata"]["name"]: Sweep(item) for item in _items(lab, "trainsweeps")}
    live.launched = sum(bool(s.status.get("attempt")) for s in sweeps_now.values())
    live.unlaunched = [
        f"f{number}: {sweeps_now[f'f{number}'].condition('Ready')}"
        for number in range(len(specs))
        if f"f{number}" in sweeps_now and not sweeps_now[f"f{number}"].status.get("attempt")
    ]
    live.told = sum(s.condition("Admitted")[0] == "False" for s in words.values())
    live.refused_by_kuberay = [
        f"{j['metadata']['name']}: {j['status'].get('message')}"
        for j in jobs
        if j.get("status", {}).get("jobDeploymentStatus") == "ValidationFailed"
    ]
    live.canary = lab.finished("canary", 300).condition("Succeeded")[1]
    live.restarts = lab.restarts()
    log = cluster.kubectl("logs", "-n", sweeps.NAMESPACE, "deployment/trainsweep", "--tail=20000")
    live.exceptions += [line for line in log.splitlines() if "Traceback" in line or '"level": "error"' in line.lower()]
    _delete(lab, live)
    return live


def _items(lab: Lab, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(lab.cluster.kubectl("get", kind, "-n", NAMESPACE, "-o", "json"))["items"]
    return found


def _collect(lab: Lab, waiting: dict[str, float], words: dict[str, Sweep], live: Live) -> None:
    """Takes note of those that have their word: Admitted is no longer Unknown."""
    for item in _items(lab, "trainsweeps"):
        name = item["metadata"]["name"]
        if name in waiting and Sweep(item).condition("Admitted")[0] in ("True", "False"):
            words[name] = Sweep(item)
            took = time.monotonic() - waiting.pop(name)
            if took > WORD_SECONDS:
                live.slow.append(f"{name}: {took:.0f} s")


def _delete(lab: Lab, live: Live) -> None:
    cluster = lab.cluster
    cluster.kubectl("delete", "trainsweeps", "--all", "-n", NAMESPACE, "--wait=false", timeout=300)
    until = time.monotonic() + 300
    while time.monotonic() < until:
        live.left = [
            f"{kind}/{item['metadata']['name']}"
            for kind in ("trainsweeps", "rayjobs", "trainsweepholds")
            for item in _items(lab, kind)
        ]
        if not live.left:
            return
        time.sleep(3)
