"""examples/tiny from the first proposal to the verdict, on this machine."""

import json

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract import layout
from trainsweep.contract.documents import Outcome

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_two_trials_are_proven_and_end_well(tmp_path):
    run = Run(tmp_path, example("tiny"), ROOT / "examples" / "tiny")
    try:
        run.start()
        receipt, digest = run.receipt()
        assert receipt.outcome is Outcome.COMPLETED
        assert (receipt.trials.expected, receipt.trials.succeeded) == (2, 2)
        # 3 -> 1.5 -> 0.75 with rate 0.5: the better one.
        assert (receipt.best.trial, receipt.best.value, receipt.best.step) == ("t0000", 0.75, 2)
        assert receipt.best.parameters == {"rate": 0.5}
        (owed,) = receipt.owed
        assert owed.checkpoint == receipt.best.checkpoint
        names = {f.path for f in owed.files}
        assert layout.MANIFEST in names
        for entry in owed.files:
            assert (run.root / owed.checkpoint / entry.path).stat().st_size == entry.size
            assert any(c.algorithm == "SHA256" for c in entry.checksums)
        run.answer(digest)
        end = run.end()
        assert (end["seen"], end["outcome"], end["verified"]) == (0, "Completed", True), run.text()[-3000:]
        assert run.progress().phase == "Ended"
        assert [t["state"] for t in run.trials()] == ["Succeeded", "Succeeded"]
        attempt = run.root / "attempts" / run.attempt_id
        assert {p.name for p in attempt.iterdir()} >= {"start.json", "receipt.json", "end.json", "driver.log"}
        last = run.text().strip().splitlines()[-1]
        assert json.loads(last.removeprefix("trainsweep-end: "))["outcome"] == "Completed"
    finally:
        run.kill()
