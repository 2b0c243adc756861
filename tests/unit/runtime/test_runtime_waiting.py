"""What is read to explain a wait: nothing where nothing waits, little where something does, and what is denied is said."""

from __future__ import annotations

from typing import Any

from tests.unit.core.core_builders import pod_body
from tests.unit.runtime.fake_kube import FakeKube
from trainsweep.core.model import SweepView
from trainsweep.core.pending.chain import chain, lowest
from trainsweep.core.times import to_text
from trainsweep.runtime.kube import EVENT, NODE_CLAIM, RESOURCE_QUOTA, WORKLOAD, Denied, Kind, NotFound
from trainsweep.runtime.views import read_status
from trainsweep.runtime.waiting import Bodies, Waiting

NOW = 1_795_910_400.0
SWEEP = SweepView("team-a", "digits", "u", 1, "1", {}, read_status({}))


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def pending(name: str = "w", age: float = 60.0) -> dict[str, Any]:
    body = pod_body(name, unscheduled="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    body["metadata"]["creationTimestamp"] = to_text(NOW - age)
    return body


def event(
    kube: FakeKube, name: str, reason: str, message: str, about: dict[str, Any], namespace: str = "team-a"
) -> None:
    kube.put(EVENT, name, namespace, involvedObject=about, reason=reason, message=message,
             source={"component": "karpenter"}, lastTimestamp=to_text(NOW - 5))  # fmt: skip


async def test_nothing_is_read_where_nothing_waits() -> None:
    kube = FakeKube()
    running = {"metadata": {"name": "h"}, "status": {"phase": "Running"}}
    job = {"metadata": {"creationTimestamp": to_text(NOW - 500)}, "spec": {"suspend": False}}
    await Waiting(kube, Clock()).situation(SWEEP, Bodies(ray_job=job, ray_cluster={}, pods=[running]))
    await Waiting(kube, Clock()).situation(SWEEP, Bodies(ray_job=job, ray_cluster={}, pods=[pending(age=10)]))
    assert kube.calls == []


async def test_a_promised_node_claim_is_followed_to_its_ec2_code_and_kept_for_a_while() -> None:
    kube, clock = FakeKube(), Clock()
    event(kube, "a", "Nominated", "Pod should schedule on: nodeclaim/gpu-1", {"uid": "uid-w"})
    text = "insufficient capacity, with fleet error(s), VcpuLimitExceeded: your current vCPU limit of 0"
    event(kube, "b", "InsufficientCapacityError", text, {"kind": "NodeClaim", "name": "gpu-1"}, "default")
    waiting = Waiting(kube, clock)
    found = lowest(chain(await waiting.situation(SWEEP, Bodies(pods=[pending()]))))
    assert found is not None
    assert (found.layer, found.reason) == ("NodeSupply", "VcpuLimitExceeded")
    before = len(kube.calls)
    assert before == 3  # the pod's Events, the NodeClaim's, the NodeClaim, which is gone
    clock.now += 5
    await waiting.situation(SWEEP, Bodies(pods=[pending()]))
    assert len(kube.calls) == before
    clock.now += 20
    await waiting.situation(SWEEP, Bodies(pods=[pending()]))
    assert len(kube.calls) == 2 * before


async def test_many_stuck_pods_cost_no_more_than_three() -> None:
    kube = FakeKube()
    await Waiting(kube, Clock()).situation(SWEEP, Bodies(pods=[pending(f"w{i}") for i in range(500)]))
    assert len(kube.calls) == 3


async def test_a_suspended_job_asks_for_its_workload_in_the_version_that_is_served() -> None:
    kube = FakeKube()
    reserved = {"type": "QuotaReserved", "status": "False", "message": "LocalQueue q doesn't exist"}
    marks = {"labels": {"kueue.x-k8s.io/job-uid": "j"}}
    kube.put(WORKLOAD, "w", metadata=marks, spec={"queueName": "q"}, status={"conditions": [reserved]})

    def older(verb: str, kind: Kind, name: str) -> Exception | None:
        return NotFound("404 page not found") if kind.version == "v1beta2" else None

    kube.fault = older
    job = {"metadata": {"uid": "j"}, "spec": {"suspend": True}}
    waiting, clock = Waiting(kube, Clock()), Clock()
    found = lowest(chain(await waiting.situation(SWEEP, Bodies(ray_job=job))))
    assert found is not None
    assert found.reason == "QueueNotFound"
    clock.now += 100
    assert [c[1] for c in kube.calls] == ["workloads", "workloads"]


async def test_what_is_denied_is_said_and_not_asked_for_again_at_once() -> None:
    kube, clock = FakeKube(), Clock()
    event(kube, "a", "Nominated", "Pod should schedule on: nodeclaim/gpu-1", {"uid": "uid-w"})
    kube.fault = lambda verb, kind, name: Denied("no") if kind in (NODE_CLAIM, RESOURCE_QUOTA) else None
    waiting = Waiting(kube, clock)
    for _ in range(3):
        seen = await waiting.situation(SWEEP, Bodies(pods=[pending()], refusal="exceeded quota: q, requested"))
        clock.now += 20
    assert seen.unread == {
        "NodeClaim": "no right to list nodeclaims",
        "ResourceQuota": "no right to list resourcequotas in team-a",
    }
    assert sum(c[1] == "nodeclaims" for c in kube.calls) == 1
    assert sum(c[1] == "resourcequotas" for c in kube.calls) == 1
