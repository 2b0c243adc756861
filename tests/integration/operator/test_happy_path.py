"""A sweep that goes well, from apply to the last pod."""

from __future__ import annotations

from tests.integration.operator.sweeps import states, sweep
from tests.integration.operator.world import World
from tests.together import concurrent


@concurrent
def test_a_sweep_succeeds_is_verified_while_it_runs_and_then_released(world: World) -> None:
    body = world.submit(sweep("happy"))
    done = world.ended(body)
    assert states(done) == {
        "Finished": "True/Completed",
        "Succeeded": "True/Completed",
        "Ready": "True/Completed",
        "Admitted": "True/Admitted",
        "ClusterReady": "False/ClusterGone",
        "TrialsFinished": "True/TrialsFinished",
        "CheckpointsVerified": "True/Verified",
        "Released": "True/Released",
        "DashboardProtected": "True/TokenRequired",
    }
    status = done["status"]
    assert status["trials"]["summary"] == "2/2"
    assert status["best"]["trial"] == "t0001"
    assert status["best"]["value"] == "0.7"
    assert status["checkpoints"]["verified"] == status["checkpoints"]["required"] == 1
    (run,) = world.runs(body)
    # The verdict reached the driver while its job still ran: that is the promise.
    assert [v.result for v in run.verdicts] == ["Persisted"]
    assert status["checkpoints"]["receiptDigest"] == run.receipts[0]
    assert world.pods(body) == []
    assert world.holds(body) == []
    world.until(lambda: "finalizers" not in world.sweep(body)["metadata"], "finalizer gone")
    (job,) = world.rayjobs(body)
    assert job["status"]["jobStatus"] == "SUCCEEDED"
