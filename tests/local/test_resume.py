"""A stop and what comes after it: the state is proven, the next attempt goes on where it was, what is finished runs no more."""

import json

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract import layout
from trainsweep.contract.documents import EXIT_STOPPED, Outcome

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]

BATCHES = 50


def test_an_epoch_goes_on_at_its_batch_with_more_workers_and_background_uploads_are_proven(tmp_path, cluster):
    spec = example("tiny")
    # t0000 ends in two seconds, t0001 takes half a minute: the stop comes inside of an epoch.
    spec["search"]["parameters"] = [{"name": "batches", "categorical": {"values": [2, BATCHES]}}]
    spec["training"] = {"entrypoint": "steps:train_loop", "config": {"epochs": 2, "rate": 0.03}}
    run = Run(tmp_path, spec, ROOT / "tests" / "local" / "loops", name="steps")
    try:
        run.start(1, cluster=cluster)
        run.wait_for(lambda p: p.trials.succeeded == 1 and list(run.root.glob(f"train/t0001-*/{layout.SNAPSHOT}")))
        run.process.terminate()  # SIGTERM, as Ray's job server and a kubelet send it
        receipt, digest = run.receipt()
        assert (receipt.outcome, receipt.reason) == (Outcome.STOPPED, "Signal")
        assert receipt.best.trial == "t0000"
        unfinished = next(o for o in receipt.owed if o.trial == "t0001")
        assert unfinished.value is None, "inside of an epoch there is no result"
        saved = progress_of(run, unfinished.checkpoint)
        assert saved["epoch"] in (0, 1)
        assert 0 < saved["state"]["batch"] <= BATCHES
        assert saved["step"] == saved["epoch"] * BATCHES + saved["state"]["batch"]
        run.answer(digest)
        end = run.end()
        assert (end["seen"], end["outcome"], end["verified"]) == (EXIT_STOPPED, "Stopped", True), run.text()[-3000:]
        first = {t["trial"]: t for t in run.trials()}
        assert {trial: t["state"] for trial, t in first.items()} == {"t0000": "Succeeded", "t0001": "Running"}

        spec["training"]["workers"] = {"count": 2}
        run.start(2, cluster=cluster)
        receipt, digest = run.receipt()
        assert (receipt.outcome, receipt.best.trial, receipt.best.step) == (Outcome.COMPLETED, "t0001", 2)
        assert receipt.attempt_id == run.attempt_id
        # Every batch exactly once, the first ones by one worker and the last ones by two.
        assert receipt.best.value == pytest.approx(3 * 0.97 ** (2 * BATCHES))
        last = progress_of(run, receipt.best.checkpoint)
        assert (last["step"], last["state"]["loaded"]) == (2 * BATCHES, 2)
        assert (saved["worldSize"], last["worldSize"]) == (1, 2)
        (owed,) = receipt.owed
        for entry in owed.files:
            assert (run.root / owed.checkpoint / entry.path).stat().st_size == entry.size
        assert "t0000 started" not in run.text()
        second = {t["trial"]: t for t in run.trials()}
        assert all(second[trial]["parameters"] == record["parameters"] for trial, record in first.items())
        assert second["t0000"] == first["t0000"]
        assert [epoch for epoch, _ in second["t0001"]["history"]] == [1, 2], "no result from inside of an epoch"
        run.answer(digest)
        assert run.end()["seen"] == 0
    finally:
        run.kill()


def progress_of(run, checkpoint):
    return json.loads((run.root / checkpoint / "progress.json").read_text())
