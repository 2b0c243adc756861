"""A stop and what comes after it: the state is proven, the next attempt goes on, what is finished runs no more."""

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract.documents import EXIT_STOPPED, Outcome

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]


def test_stop_is_proven_and_the_next_attempt_resumes(tmp_path, cluster):
    spec = example("tiny")
    # t0000 ends after one epoch, t0001 would take minutes, t0002 waits for a place.
    spec["search"]["parameters"] = [{"name": "epochs", "categorical": {"values": [1, 200, 2]}}]
    spec["training"]["config"] = {"rate": 0.5, "seconds": 1.0}
    run = Run(tmp_path, spec, ROOT / "examples" / "tiny")
    try:
        run.start(1, cluster=cluster)
        run.wait_for(lambda p: p.trials.succeeded >= 1 and p.first_report_at, 500)
        run.wait_for(lambda p: _step(run, "t0001") >= 2, 500)
        run.ask_to_stop("Suspended", grace=60)
        receipt, digest = run.receipt()
        assert (receipt.outcome, receipt.reason) == (Outcome.STOPPED, "Suspended")
        unfinished = next(o for o in receipt.owed if o.trial == "t0001")
        assert unfinished.step >= 2
        run.answer(digest)
        end = run.end()
        assert (end["seen"], end["outcome"], end["verified"]) == (EXIT_STOPPED, "Stopped", True), run.text()[-3000:]
        states = {t["trial"]: t["state"] for t in run.trials()}
        assert states["t0000"] == "Succeeded"
        assert states["t0001"] == "Running"
        first = {t["trial"]: t for t in run.trials()}

        run.start(2, cluster=cluster)
        run.wait_for(lambda p: _step(run, "t0001") > unfinished.step, 500)
        text = run.text()
        assert "t0000 started" not in text
        assert f"t0001 epoch {unfinished.step + 1}:" in text
        assert "t0001 epoch 1:" not in text
        second = {t["trial"]: t for t in run.trials()}
        for trial, record in first.items():
            assert second[trial]["parameters"] == record["parameters"]
        run.process.terminate()  # SIGTERM, as Ray's job server sends it: the same two phases
        receipt, digest = run.receipt()
        assert (receipt.outcome, receipt.reason, receipt.attempt_id) == (Outcome.STOPPED, "Signal", "2-0a1b2c3d")
        run.answer(digest)
        assert run.end()["seen"] == EXIT_STOPPED
    finally:
        run.kill()


def _step(run, trial):
    return next((t.get("step", 0) for t in run.trials() if t["trial"] == trial), 0)
