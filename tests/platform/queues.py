"""Two teams with two queues each, and sweeps that take all GPUs of one."""

from __future__ import annotations

from typing import Any

GPU = "nvidia.com/gpu"
TEAMS = ("team-a", "team-b")
SPACES = (*TEAMS, "team-quota")
QUEUES = ("gpus", "ranked")
"""Two GPUs each, so that what waits in one needs nothing of what is preempted in the other."""


def on_gpus(queue: str | None, **more: Any) -> dict[str, Any]:
    """Two trials on one worker pod that takes both GPUs."""
    over: dict[str, Any] = {
        "scheduling": {"queueName": queue} if queue else None,
        "training": {"workers": {"count": 1, "resources": {"cpu": 1, GPU: 1}}, "config": {"epochs": 6, "seconds": 1.5}},
        "cluster": {
            "workerGroups": [
                {"name": "gpu", "resources": {"cpu": 2, "memory": "4Gi", GPU: 2}, "minReplicas": 1, "maxReplicas": 1}
            ]
        },
    }
    return over | more


def slow(epochs: int = 20) -> dict[str, Any]:
    """Training long enough for another sweep to come meanwhile."""
    return {
        "workers": {"count": 1, "resources": {"cpu": 1, GPU: 1}},
        "config": {"epochs": epochs, "seconds": 1.5},
    }


def objects() -> list[dict[str, Any]]:
    """One flavor, ClusterQueues of two GPUs, a LocalQueue a team in each, and a priority that preempts."""
    kueue = "kueue.x-k8s.io/v1beta2"
    quotas = [("cpu", "8"), ("memory", "32Gi"), (GPU, "2")]
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas]
    group = {"coveredResources": [name for name, _ in quotas], "flavors": [{"name": "default", "resources": resources}]}
    cluster_queue = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return [
        {"apiVersion": kueue, "kind": "ResourceFlavor", "metadata": {"name": "default"}},
        *(
            {"apiVersion": kueue, "kind": "ClusterQueue", "metadata": {"name": queue}, "spec": cluster_queue}
            for queue in QUEUES
        ),
        *(
            {
                "apiVersion": kueue,
                "kind": "LocalQueue",
                "metadata": {"name": queue, "namespace": team},
                "spec": {"clusterQueue": queue},
            }
            for queue in QUEUES
            for team in TEAMS
        ),
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
            "preemptionPolicy": "Never",
        },
    ]
