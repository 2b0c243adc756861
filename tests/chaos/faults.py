"""The faults, as data: when each strikes, what it does, and what must have become of the sweep.

A fault acts on the real cluster and says nothing of how TrainSweep should cope; that is measured from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster import sweeps
from devcluster.cluster import BUCKET
from tests.e2e.lab import Lab, Sweep, merged

OUTAGE = 60.0
GPU = "nvidia.com/gpu"

BASE: dict[str, Any] = {
    "trials": {"maxConcurrent": 1},
    "training": {
        "workers": {"count": 1, "resources": {"cpu": 1, GPU: 1}},
        "config": {"epochs": 8, "seconds": 1.5},
    },
    "cluster": {
        "workerGroups": [
            {"name": "gpu", "resources": {"cpu": 1, "memory": "4Gi", GPU: 1}, "minReplicas": 1, "maxReplicas": 1}
        ]
    },
    "failurePolicy": {"trialRetries": 2, "backoff": {"initialSeconds": 1, "maxSeconds": 5}},
    "checkpoints": {"verify": {"timeoutSeconds": 180}},
    "cleanup": {"holdSeconds": 180, "stopGraceSeconds": 5, "deletionGraceSeconds": 180},
}
LONG: dict[str, Any] = {"training": {"config": {"epochs": 30, "seconds": 2}}}
"""Still in training after an outage."""
MIDDLE: dict[str, Any] = {"training": {"config": {"epochs": 14, "seconds": 1.5}}}
"""Still in training when a pod or an object of it goes."""


@dataclass(frozen=True)
class Target:
    """What a fault acts on."""

    lab: Lab
    name: str

    def now(self) -> Sweep:
        """The sweep as it stands."""
        found = self.lab.get(self.name)
        assert found is not None, f"{self.name} is gone"
        return found

    def training(self) -> Sweep:
        """Waits for the first committed report."""
        return self.lab.reported(self.name)

    def receipted(self) -> Sweep:
        """Waits until the driver waits for its verdict."""
        sweep = self.lab.wait(self.name, "its launch", lambda s: bool(s.status.get("runURI")), 60)
        self.lab.receipted(sweep)
        return sweep

    def job(self) -> str:
        """Name of its newest RayJob."""
        return str(self.now().status["attempts"][-1]["rayJob"])

    def pod(self, kind: str) -> str:
        """Name of a pod of a kind (head or worker)."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for one in self.lab.items("pods", self.name):
                if one["metadata"]["labels"].get("ray.io/node-type") == kind:
                    return str(one["metadata"]["name"])
            time.sleep(1)
        raise AssertionError(f"{self.name} has no {kind} pod")


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    Attributes:
        name: the row's first cell.
        strike: waits for its moment, calls `begin` when the fault is there, and returns when it is over.
        over: on top of the base sweep.
        succeeds: whether the sweep must succeed in the end; else `reason` is what it must say.
        attempts: the most attempts that it may take.
        gone: the sweep is deleted by the fault: what it owed is looked at in the store.
        kueue: it needs Kueue.
        own: it touches nothing but the sweep's own pods and objects, and may strike beside another.
    """

    name: str
    strike: Callable[[Target, Callable[[], None]], None]
    over: dict[str, Any] = field(default_factory=dict)
    succeeds: bool = True
    reason: str = "Completed"
    attempts: int = 1
    gone: bool = False
    kueue: bool = False
    own: bool = False

    @property
    def key(self) -> str:
        """A name for objects and files."""
        return (
            "".join(c if c.isalnum() else "-" for c in self.name.lower()).strip("-").replace("--", "-")[:30].strip("-")
        )

    def spec(self) -> dict[str, Any]:
        """What the sweep has on top of the e2e base."""
        return merged(BASE, self.over)


Begin = Callable[[], None]


# ------------------------------------------------------------------------------------------------ the operator


def operator_pids(lab: Lab) -> list[int]:
    """Process ids, on this machine, of the operator's containers on this cluster's node."""
    text = lab.cluster.kubectl(
        "get", "pods", "-n", sweeps.NAMESPACE, "-l", "app.kubernetes.io/name=trainsweep", "-o", "json"
    )
    uids = [p["metadata"]["uid"] for p in json.loads(text)["items"]]
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (place / "cmdline").read_bytes().split(b"\0")
            group = (place / "cgroup").read_text()
            if b"trainsweep.runtime" in command and any(u in group or u.replace("-", "_") in group for u in uids):
                found.append(int(place.name))
    return found


def kill_operator(lab: Lab) -> None:
    """kill -9 of the operator's process: no handler runs, the kubelet starts the container again."""
    pids = operator_pids(lab)
    assert pids, "the operator's process was found on the node"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _operator_killed(state: str) -> Callable[[Target, Begin], None]:
    def strike(target: Target, begin: Begin) -> None:
        if state == "Starting":
            target.lab.wait(target.name, "an attempt", lambda s: bool(s.status.get("attempts")), 60)
        elif state == "Running":
            target.training()
        elif state == "Verifying":
            target.receipted()
        elif state == "Releasing":
            target.lab.wait(target.name, "proof", lambda s: s.condition("CheckpointsVerified")[0] == "True", 240)
        elif state == "Stopping":
            target.training()
            target.lab.delete(target.name, cascade="background")
        begin()
        kill_operator(target.lab)

    return strike


# ------------------------------------------------------------------------------------------------ pods and processes


def _pod_deleted(kind: str) -> Callable[[Target, Begin], None]:
    def strike(target: Target, begin: Begin) -> None:
        target.training()
        # Not by force: its name would go before its processes, and they would still commit.
        target.lab.cluster.kubectl("delete", "pod", target.pod(kind), "--wait=true", "--grace-period=1", timeout=60)
        begin()

    return strike


def _training_process_killed(target: Target, begin: Begin) -> None:
    target.training()
    pod = target.pod("worker")
    target.lab.cluster.kubectl("exec", pod, "-c", "ray-worker", "--", "sh", "-c", "pkill -9 -f '^ray::.*TrainWorker'")
    begin()


def _driver_killed(target: Target, begin: Begin) -> None:
    target.training()
    pod = target.pod("head")
    target.lab.cluster.kubectl(
        "exec", pod, "-c", "ray-head", "--", "sh", "-c", "pkill -9 -f '^[^ ]*python[0-9.]* -m trainjobs$'"
    )
    begin()


# ------------------------------------------------------------------------------------------------ the platform


@contextlib.contextmanager
def _paused(lab: Lab, program: str) -> Iterator[None]:
    lab.cluster.pause(program)
    try:
        yield
    finally:
        lab.cluster.resume(program)


def _outage(program: str, *, settlement: bool = False) -> Callable[[Target, Begin], None]:
    def strike(target: Target, begin: Begin) -> None:
        target.receipted() if settlement else target.training()
        with _paused(target.lab, program):
            begin()
            time.sleep(OUTAGE)

    return strike


def _kuberay_away(target: Target, begin: Begin) -> None:
    """KubeRay is down while the job ends: nobody books its end until it is back."""
    target.training()
    cluster = target.lab.cluster
    begin()
    cluster.kubectl("scale", "deployment", "-n", "kuberay-system", "--all", "--replicas=0")
    try:
        sweep = target.now()
        target.lab.receipted(sweep)
        time.sleep(30)
    finally:
        cluster.kubectl("scale", "deployment", "-n", "kuberay-system", "--all", "--replicas=1")
        cluster.kubectl("rollout", "status", "deployment", "-n", "kuberay-system", "--timeout=120s", timeout=130)


# ------------------------------------------------------------------------------------------------ the store


def _damaged(how: str) -> Callable[[Target, Begin], None]:
    def strike(target: Target, begin: Begin) -> None:
        target.lab.wait(target.name, "its launch", lambda s: bool(s.status.get("runURI")), 60)
        with target.lab.operator_away():
            sweep = target.receipted()
            owed = target.lab.document(sweep, "receipt.json")["owed"][0]
            key = f"{target.lab.prefix(sweep)}{owed['checkpoint']}/progress.json"
            begin()
            if how == "deleted":
                target.lab.s3.delete_object(Bucket=BUCKET, Key=key)
            else:
                data = target.lab.read(key)
                body = data[: len(data) // 2] if how == "truncated" else bytes(b ^ 0x20 for b in data)
                target.lab.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    return strike


def _operator_denied(target: Target, begin: Begin) -> None:
    target.training()
    begin()
    with target.lab.operator_env(AWS_ACCESS_KEY_ID="nobody"):
        target.receipted()
        time.sleep(30)


# ------------------------------------------------------------------------------------------------ people


def _hold_then_foreground(target: Target, begin: Begin) -> None:
    target.training()
    begin()
    for hold in target.lab.items("trainsweepholds", target.name):
        target.lab.cluster.kubectl("delete", "trainsweephold", hold["metadata"]["name"], "--wait=false")
    target.lab.delete(target.name, cascade="foreground")


def _job_deleted(target: Target, begin: Begin) -> None:
    target.training()
    begin()
    target.lab.cluster.kubectl("delete", "rayjob", target.job(), "--wait=false")


def _job_suspended(target: Target, begin: Begin) -> None:
    target.training()
    begin()
    target.lab.cluster.kubectl("patch", "rayjob", target.job(), "--type=merge", "-p", '{"spec":{"suspend":true}}')


def _deadline_raised(target: Target, begin: Begin) -> None:
    """Raised while it runs; the training then goes on past the moment at which KubeRay's old backstop would strike."""
    target.training()
    begin()
    sweeps.apply(
        target.lab.cluster,
        target.lab.manifest(target.name, merged(DEADLINE.spec(), {"deadlines": {"runSeconds": 1200}})),
    )


def _two_operators(target: Target, begin: Begin) -> None:
    cluster = target.lab.cluster
    target.lab.wait(target.name, "its launch", lambda s: bool(s.status.get("attempts")), 60)
    begin()
    cluster.kubectl("scale", "deployment/trainsweep", "-n", sweeps.NAMESPACE, "--replicas=2")
    try:
        target.lab.rollout()
        target.lab.finished(target.name, 300)
        target.lab.released(target.name)
    finally:
        cluster.kubectl("scale", "deployment/trainsweep", "-n", sweeps.NAMESPACE, "--replicas=1")
        target.lab.rollout()


def _preempted(target: Target, begin: Begin) -> None:
    """A workload of higher priority takes the one GPU of the queue, and gives it back."""
    cluster = target.lab.cluster
    target.training()
    begin()
    sweeps.apply(cluster, _rival())
    try:
        target.lab.wait(target.name, "the preemption", lambda s: len(pods_of(target)) == 0, 120)
        time.sleep(5)
    finally:
        cluster.kubectl("delete", "job", "rival", "--wait=true")


def pods_of(target: Target) -> list[dict[str, Any]]:
    """Its pods that hold something."""
    return [p for p in target.lab.items("pods", target.name) if p["status"].get("phase") not in ("Succeeded", "Failed")]


def _rival() -> dict[str, Any]:
    container = {
        "name": "wait",
        "image": sweeps.OPERATOR_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": "10m", GPU: "1"}, "limits": {GPU: "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "rival",
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "chaos", "kueue.x-k8s.io/priority-class": "chaos-high"},
        },
        "spec": {
            "suspend": True,
            "template": {
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
            },
        },
    }


def queues() -> list[dict[str, Any]]:
    """A queue of one GPU, in which priority preempts."""
    resources = [("cpu", "16"), ("memory", "64Gi"), (GPU, "1")]
    return [
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "chaos"}},
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ClusterQueue",
            "metadata": {"name": "chaos"},
            "spec": {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {
                        "coveredResources": [name for name, _ in resources],
                        "flavors": [
                            {
                                "name": "chaos",
                                "resources": [{"name": name, "nominalQuota": quota} for name, quota in resources],
                            }
                        ],
                    }
                ],
            },
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "LocalQueue",
            "metadata": {"name": "chaos", "namespace": "default"},
            "spec": {"clusterQueue": "chaos"},
        },
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "chaos-high"},
            "value": 1000,
            "description": "Takes what others have.",
        },
    ]


DEADLINE = Fault(
    "deadline raised past the old backstop",
    _deadline_raised,
    {
        "deadlines": {"runSeconds": 110},
        "checkpoints": {"verify": {"timeoutSeconds": 30}},
        "training": {"config": {"epochs": 105, "seconds": 2}},
    },
)

FAULTS: tuple[Fault, ...] = (
    Fault("operator killed in Starting", _operator_killed("Starting")),
    Fault("operator killed in Running", _operator_killed("Running")),
    Fault("operator killed in Verifying", _operator_killed("Verifying")),
    Fault("operator killed in Releasing", _operator_killed("Releasing")),
    Fault("operator killed while deleting", _operator_killed("Stopping"), LONG, gone=True),
    Fault("head pod deleted", _pod_deleted("head"), MIDDLE, attempts=2, own=True),
    Fault("worker pod deleted", _pod_deleted("worker"), MIDDLE, own=True),
    Fault("training process killed", _training_process_killed, MIDDLE, own=True),
    Fault("driver killed", _driver_killed, MIDDLE, attempts=2, own=True),
    Fault("kubelet stopped for 60 s", _outage("kubelet"), LONG),
    Fault("API server stopped for 60 s", _outage("kube-apiserver"), LONG),
    Fault("S3 stopped for 60 s in training", _outage("versitygw"), LONG, attempts=2),
    Fault("S3 stopped for 60 s at settlement", _outage("versitygw", settlement=True), attempts=2),
    Fault("KubeRay down while the job ends", _kuberay_away),
    Fault("checkpoint deleted", _damaged("deleted")),
    Fault("checkpoint truncated", _damaged("truncated")),
    Fault("checkpoint with other bytes", _damaged("replaced")),
    Fault("operator's credentials denied", _operator_denied),
    Fault("hold deleted, then foreground delete", _hold_then_foreground, MIDDLE, gone=True, own=True),
    Fault("RayJob deleted by a person", _job_deleted, MIDDLE, attempts=2, own=True),
    Fault("RayJob suspended by a person", _job_suspended, MIDDLE, attempts=2, own=True),
    DEADLINE,
    Fault("two operators by mistake", _two_operators),
    Fault("preempted by Kueue", _preempted, LONG | {"scheduling": {"queueName": "chaos"}}, attempts=2, kueue=True),
)
