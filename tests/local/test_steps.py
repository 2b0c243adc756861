"""Long epochs: a stop in the middle is saved and goes on there; uploads in the background are complete in the receipt."""

import json

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract import layout
from trainsweep.contract.documents import EXIT_STOPPED, Outcome

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1200)]


def test_an_epoch_goes_on_at_its_batch_and_background_uploads_are_proven(tmp_path, cluster, next_cluster):
    spec = example("tiny")
    # One trial, with the one rate that the figures below are made of.
    rate = {"name": "rate", "float": {"min": 0.03, "max": 0.03 + 1e-12}}
    spec["search"] = {"algorithm": {"random": {"seed": 1}}, "parameters": [rate]}
    spec["trials"] = {"count": 1}
    spec["training"] = {"entrypoint": "steps:train_loop", "config": {"epochs": 2, "batches": 40}}
    run = Run(tmp_path, spec, ROOT / "tests" / "local" / "loops", name="steps")
    try:
        run.start(1, cluster=cluster)
        run.wait_for(lambda p: list((run.root / layout.TRAIN).glob(f"*/{layout.SNAPSHOT}")))
        run.ask_to_stop("Suspended", grace=60)
        receipt, digest = run.receipt()
        (owed,) = receipt.owed
        assert owed.value is None, "inside of an epoch there is no result"
        saved = json.loads((run.root / owed.checkpoint / "progress.json").read_text())
        assert saved["epoch"] in (0, 1)
        assert 0 < saved["state"]["batch"] < 40
        assert saved["step"] == saved["epoch"] * 40 + saved["state"]["batch"]
        run.answer(digest)
        assert run.end()["seen"] == EXIT_STOPPED

        spec["training"]["workers"] = {"min": 1, "max": 4}  # elastic: the cluster has room for two
        run.start(2, cluster=next_cluster)
        receipt, digest = run.receipt()
        assert (receipt.outcome, receipt.best.step) == (Outcome.COMPLETED, 2)
        assert receipt.best.value == pytest.approx(3 * 0.97**80)
        last = json.loads((run.root / receipt.best.checkpoint / "progress.json").read_text())
        assert (last["step"], last["state"]["loaded"]) == (80, 2)
        assert (saved["worldSize"], last["worldSize"]) == (1, 2)
        (owed,) = receipt.owed
        for entry in owed.files:
            assert (run.root / owed.checkpoint / entry.path).stat().st_size == entry.size
        (record,) = run.trials()
        assert [epoch for epoch, _ in record["history"]] == [1, 2], "no result from inside of an epoch"
        run.answer(digest)
        assert run.end()["seen"] == 0
    finally:
        run.kill()
