"""The operator itself: killed where it hurts, kept out where it has no business, and quiet."""

from __future__ import annotations

import sys

import pytest

from devcluster import sweeps
from tests.e2e.lab import Lab

POST = """
import json, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], json.dumps({"entrypoint": "id"}).encode(), {"Content-Type": "application/json"})
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.mark.parametrize("point", ["after-status", "while-verifying", "after-verdict"])
def test_operator_killed_at_a_crash_point_changes_nothing(lab: Lab, point: str) -> None:
    name = f"crash-{point}"
    with lab.operator_env(TRAINSWEEP_CRASH_AT=point, TRAINSWEEP_CRASH_ONCE_FILE="/tmp/crashed"):
        lab.apply(name)
        done = lab.finished(name, 180)
        assert done.condition("Succeeded")[:2] == ("True", "Completed"), done
        assert lab.restarts() == 1, "it was really killed, once"
        assert done.status["attempt"] == 1
        assert len(lab.items("rayjobs", name)) == 1
        lab.released(name)


def test_dashboard_without_the_token_is_refused_while_the_sweep_succeeds(lab: Lab) -> None:
    name = "token"
    lab.apply(name)
    running = lab.reported(name)
    assert running.condition("DashboardProtected")[0] == "True"
    address = lab.head(name)["status"]["podIP"]
    code = lab.cluster.exec_on_node(sys.executable, "-c", POST, f"http://{address}:8265/api/jobs/")
    assert code.strip() == "401"
    assert lab.finished(name).condition("Succeeded")[0] == "True"
    lab.released(name)


def test_wrong_credentials_end_after_one_attempt_with_the_stores_own_word(lab: Lab) -> None:
    lab.namespace("denied")
    sweeps.apply(lab.cluster, sweeps.s3_secret(lab.cluster, "denied", key="nobody", secret="wrong"))
    lab.apply("denied", namespace="denied")
    done = lab.finished("denied", 180, "denied")
    assert done.condition("Succeeded")[:2] == ("False", "PermanentFailure"), done
    assert done.status["attempt"] == 1
    message = done.condition("Succeeded")[2]
    assert "s3://trainsweep" in message
    assert "credentials" in message
    assert done.condition("CheckpointsVerified")[0] != "True"
    lab.released("denied", namespace="denied")


def test_wrong_entrypoint_ends_after_one_attempt_and_names_the_field(lab: Lab) -> None:
    lab.apply("entrypoint", {"training": {"entrypoint": "e2e_loop:lop"}})
    done = lab.finished("entrypoint", 180)
    assert done.condition("Succeeded")[:2] == ("False", "PermanentFailure"), done
    assert "training.entrypoint e2e_loop:lop" in done.condition("Succeeded")[2]
    assert done.status["attempt"] == 1
    lab.released("entrypoint")


def test_missing_image_and_impossible_resources_wait_or_end_with_a_reason(lab: Lab) -> None:
    lab.apply("no-image", {"training": {"image": "localhost/none/such:1"}})
    lab.apply(
        "too-big", {"cluster": {"head": {"resources": {"cpu": 1, "memory": "6Gi"}, "nodeSelector": {"disk": "none"}}}}
    )
    waiting = lab.wait("too-big", "a reason", lambda s: bool(s.status.get("pending")), 60)
    assert waiting.status["pending"]["layer"] == "Placement"
    assert "node" in waiting.status["pending"]["message"]
    lab.delete("too-big", wait=True)
    done = lab.finished("no-image", 150)
    assert done.condition("Succeeded")[:2] == ("False", "PermanentFailure"), done
    assert "localhost/none/such:1" in done.condition("Succeeded")[2]
    lab.released("no-image")
