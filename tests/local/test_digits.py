"""examples/digits on this machine: two workers with DDP, early stopping, and a network that works on unseen images."""

import json
import subprocess
import sys

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract.documents import Outcome

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1500)]
pytest.importorskip("sklearn")


def test_the_proven_checkpoint_names_digits_that_nobody_has_seen(tmp_path):
    run = Run(tmp_path, example("digits"), ROOT / "examples" / "digits", name="digits")
    try:
        run.start(cpus=4)
        receipt, digest = run.receipt(900)
        assert receipt.outcome is Outcome.COMPLETED
        counts = receipt.trials
        assert counts.expected == counts.succeeded + counts.early_stopped == 6
        assert counts.early_stopped >= 1
        (owed,) = receipt.owed
        names = {f.path for f in owed.files}
        assert names == {
            "progress.json",
            "state.pt",
            "rank-0.pt",
            "rank-1.pt",
            "trainsweep-manifest.json",
            "trainsweep-manifest-rank1.json",
        }
        run.answer(digest)
        assert run.end()["seen"] == 0, run.text()[-3000:]
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "digits" / "evaluate.py"), str(run.root / owed.checkpoint)],
            env=run.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        assert found["accuracy"] >= 0.95
        assert found["untrained"] < 0.3
        assert found["images"] == 300
    finally:
        run.kill()
