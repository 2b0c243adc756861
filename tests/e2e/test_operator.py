"""The operator itself: killed where it hurts, and with what cannot go well."""

from __future__ import annotations

from devcluster import sweeps
from tests.e2e.lab import Lab
from tests.together import concurrent, long


def test_operator_killed_at_three_points_changes_nothing(lab: Lab) -> None:
    """One sweep, and an operator that dies before its launch, within the second look, and before it lets go."""
    name = "crash"
    points = ("after-status", "while-verifying", "after-verdict")
    with lab.operator_env(TRAINSWEEP_CRASH_AT=",".join(points), TRAINSWEEP_CRASH_ONCE_FILE="/tmp/deaths"):
        lab.apply(name)
        done = lab.finished(name)
        assert done.condition("Succeeded")[:2] == ("True", "Completed"), done
        assert lab.restarts() == len(points), "it was really killed, once at each"
        assert done.status["attempt"] == 1
        assert len(lab.items("rayjobs", name)) == 1
        lab.released(name)


@concurrent
def test_wrong_credentials_end_after_one_attempt_with_the_stores_own_word(lab: Lab) -> None:
    lab.namespace("denied")
    sweeps.apply(lab.cluster, sweeps.s3_secret(lab.cluster, "denied", key="nobody", secret="wrong"))
    lab.apply("denied", namespace="denied")
    done = lab.finished("denied", namespace="denied")
    assert done.condition("Succeeded")[:2] == ("False", "PermanentFailure"), done
    assert done.status["attempt"] == 1
    message = done.condition("Succeeded")[2]
    assert "s3://trainsweep" in message
    assert "credentials" in message
    assert done.condition("CheckpointsVerified")[0] != "True"
    lab.released("denied", namespace="denied")


@concurrent
def test_wrong_entrypoint_ends_after_one_attempt_and_names_the_field(lab: Lab) -> None:
    lab.apply("entrypoint", {"training": {"entrypoint": "e2e_loop:lop"}})
    done = lab.finished("entrypoint")
    assert done.condition("Succeeded")[:2] == ("False", "PermanentFailure"), done
    assert "training.entrypoint e2e_loop:lop" in done.condition("Succeeded")[2]
    assert done.status["attempt"] == 1
    lab.released("entrypoint")


@concurrent
@long
def test_missing_image_ends_after_one_attempt_and_names_it(lab: Lab) -> None:
    lab.apply("no-image", {"training": {"image": "localhost/none/such:1"}})
    waiting = lab.wait("no-image", "a reason", lambda s: (s.status.get("pending") or {}).get("layer") == "Image")
    assert "localhost/none/such:1" in waiting.status["pending"]["message"]
    done = lab.finished("no-image")
    assert done.condition("Succeeded")[:2] == ("False", "PermanentFailure"), done
    assert "localhost/none/such:1" in done.condition("Succeeded")[2]
    lab.released("no-image")


@concurrent
@long
def test_impossible_placement_waits_with_its_reason(lab: Lab) -> None:
    lab.apply(
        "too-big", {"cluster": {"head": {"resources": {"cpu": 1, "memory": "6Gi"}, "nodeSelector": {"disk": "none"}}}}
    )
    waiting = lab.wait("too-big", "a reason", lambda s: (s.status.get("pending") or {}).get("layer") == "Placement")
    assert "0 of 1 nodes fit: 1 outside nodeSelector" in waiting.status["pending"]["message"]
    lab.delete("too-big", wait=True)
