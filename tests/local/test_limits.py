"""Limits that the driver keeps: a trial's time, also where it reports nothing, and a deadline that is set in mid-run."""

import time

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract.documents import Limits, Outcome

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]


def test_trials_end_by_their_time_and_the_attempt_by_a_late_deadline(tmp_path, cluster):
    spec = example("tiny")
    # The first reports every second, the second nothing for minutes, the last is still to come.
    spec["search"] = {
        "algorithm": {"grid": {}},
        "parameters": [{"name": "seconds", "categorical": {"values": [1.0, 400.0, 0.9]}}],
    }
    spec["trials"] = {"maxConcurrent": 2}
    spec["training"]["config"] = {"rate": 0.5, "epochs": 500}
    spec["cleanup"] = {"stopGraceSeconds": 5}
    spec["deadlines"] = {"trialSeconds": 75}  # workers alone take half a minute to start on a busy machine
    run = Run(tmp_path, spec, ROOT / "examples" / "tiny")
    try:
        run.start(cluster=cluster)
        run.wait_for(lambda p: p.trials.early_stopped >= 1 and p.trials.failed >= 1)
        trials = {t["trial"]: t for t in run.trials()}
        assert trials["t0000"]["state"] == "EarlyStopped"
        assert trials["t0000"]["bestValue"] is not None
        assert 75 <= trials["t0000"]["seconds"] < 135
        assert trials["t0001"]["state"] == "Failed"
        assert "deadlines.trialSeconds" in trials["t0001"]["error"]
        run.write_control(limits=Limits(deadline_at=time.time() + 5))
        receipt, digest = run.receipt()
        assert receipt.outcome is Outcome.DEADLINE_EXCEEDED
        assert "t0000" in {o.trial for o in receipt.owed} | {receipt.best.trial}
        run.answer(digest)
        assert run.end()["outcome"] == "DeadlineExceeded"
    finally:
        run.kill()
