"""On S3: the second look finds a damaged checkpoint, the driver mends it, and says so where it cannot."""

import pytest

from tests.local.harness import ROOT, Run, example
from tests.moto_server import s3_endpoint
from trainsweep.contract.documents import EXIT_NOT_VERIFIED, MissingFile

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def endpoint():
    with s3_endpoint() as url:
        yield url


def test_a_file_of_other_bytes_is_mended_once_and_then_given_up(tmp_path, endpoint, cluster):
    spec = example("tiny")
    spec["search"]["parameters"] = [{"name": "rate", "categorical": {"values": [0.5, 1.7]}}]
    spec["training"]["config"] = {"epochs": 3}  # rate 1.7 overshoots: its best is its last as well, but far worse
    spec["failurePolicy"] = {"trialRetries": 1}
    run = Run(
        tmp_path, spec, ROOT / "examples" / "tiny", uri="s3://data/team größe/"
    )  # F1: odd prefixes work to the end
    run.store = {"uri": run.uri, "endpointURL": endpoint}
    try:
        run.start(cluster=cluster)
        first, digest = run.receipt()
        store = run.s3()
        (owed,) = first.owed
        assert (owed.trial, owed.step, owed.value) == ("t0000", 3, 0.375)
        assert {e.key for e in store.entries(owed.checkpoint)} >= {f"{owed.checkpoint}/{f.path}" for f in owed.files}

        def damage(checkpoint):
            key = f"{checkpoint}/progress.json"
            store.put(key, b"x" * len(store.get(key)))
            return MissingFile(trial="t0000", checkpoint=checkpoint, file="progress.json", problem="WrongChecksum")

        run.answer(digest, "Missing", [damage(owed.checkpoint)])
        second, digest = run.receipt()
        (mended,) = second.owed
        assert (second.sequence, second.outcome) == (2, "Completed")
        assert mended.checkpoint != owed.checkpoint
        assert (mended.trial, mended.step, mended.value) == (
            "t0000",
            3,
            0.375,
        )  # not a worse one
        assert "t0000 epoch 3:" in run.text()
        assert run.text().count("t0000 epoch 1:") == 1, "it went on from epoch 2, not from the start"
        assert not store.entries(owed.checkpoint)
        assert [t["state"] for t in run.trials()] == ["Succeeded", "Succeeded"]

        run.answer(digest, "Missing", [damage(mended.checkpoint)])
        end = run.end()
        assert (end["seen"], end["outcome"], end["reason"]) == (EXIT_NOT_VERIFIED, "Failed", "CheckpointsLost")
        assert end["verified"] is False
        assert f"{mended.checkpoint}/progress.json (WrongChecksum)" in end["message"]
        keys = {e.key.rpartition("/")[2] for e in store.entries(f"attempts/{run.attempt_id}")}
        assert keys == {"start.json", "receipt.json", "receipt-2.json", "end.json", "driver.log"}
    finally:
        run.kill()
