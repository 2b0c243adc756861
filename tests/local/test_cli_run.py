"""`trainsweep run --local` and `trainsweep verify`, with the real driver and a Ray of its own, as on a laptop."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.local.harness import ROOT
from trainsweep.contract import layout
from trainsweep.contract.documents import Progress, Receipt

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]

EPOCHS = 20
SWEEP = f"""
apiVersion: trainsweep.io/v1alpha1
kind: TrainSweep
metadata: {{name: slow}}
spec:
  objective: {{metric: loss, mode: Minimize}}
  search:
    algorithm: {{random: {{seed: 1}}}}
    parameters: [{{name: rate, float: {{min: 0.5, max: 0.500000000001}}}}]
  trials: {{count: 1}}
  training: {{entrypoint: "train:train_loop", config: {{epochs: {EPOCHS}, seconds: 1}}}}
  checkpoints: {{export: {{uri: "s3://models"}}}}
"""


class Command:
    """`trainsweep run` on a sweep file of its own, again and again, and what it wrote about its trials."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "sweep.yaml").write_text(SWEEP)
        (folder / "train.py").write_text((ROOT / "examples" / "tiny" / "train.py").read_text())

    def start(self, *arguments):
        command = [sys.executable, "-m", "trainsweep.cli.main", *arguments, "-o", "json"]
        env = os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            command, env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self):
        self.start("run", "sweep.yaml", "--local", "--cpus", "2")

    def end(self, seconds=1200):
        out, err = self.process.communicate(timeout=seconds)
        assert out, err
        return self.process.returncode, json.loads(out)

    def verify(self, run):
        self.start("verify", run)
        return self.end()

    @property
    def root(self):
        return next((self.folder / "trainsweep-runs").glob("default/slow/*/"))

    def trial(self):
        (line,) = (self.root / layout.TRIALS).read_text().splitlines()
        return json.loads(line)

    def wait_for_a_report(self, seconds=1200):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.process.communicate()
            if list((self.folder / "trainsweep-runs").glob(f"default/slow/*/{layout.TRIALS}")) and self.trial()["step"]:
                return
            time.sleep(0.2)
        raise AssertionError("no report")


def test_ctrl_c_ends_well_and_the_same_command_goes_on_to_the_proof(tmp_path):
    command = Command(tmp_path)
    command.run()
    command.wait_for_a_report()
    command.process.send_signal(signal.SIGINT)
    code, out = command.end()
    assert code == 1
    assert (out["outcome"], out["verified"], out["exitCode"]) == ("Stopped", True, 5)
    assert out["receipt"]
    stopped = command.trial()
    assert stopped["state"] == "Running"
    assert 1 <= stopped["step"] < EPOCHS

    command.run()
    code, out = command.end()
    assert code == 0, out
    assert (out["outcome"], out["verified"], out["proven"]) == ("Completed", True, 1)
    assert out["best"]["value"] == pytest.approx(3 * 0.5**EPOCHS)
    root, attempt = command.root, command.root / "attempts" / out["attempt"]
    log = (attempt / "driver.log").read_text()
    assert f"t0000 epoch {stopped['step'] + 1}:" in log
    assert f"t0000 epoch {stopped['step']}:" not in log, "what was committed is not trained again"
    assert {p.name for p in attempt.iterdir()} == {
        "start.json",
        "receipt.json",
        "end.json",
        "driver.log",
        "export.json",
    }
    assert command.trial()["state"] == "Succeeded"
    assert Progress.model_validate_json((root / layout.PROGRESS).read_bytes()).phase == "Ended"
    receipt = Receipt.model_validate_json((root / layout.RECEIPT).read_bytes())
    assert (receipt.trials.expected, receipt.trials.succeeded) == (1, 1)
    assert (receipt.best.trial, receipt.best.step) == ("t0000", EPOCHS)
    (owed,) = receipt.owed
    assert layout.MANIFEST in {f.path for f in owed.files}
    for entry in owed.files:
        assert (root / owed.checkpoint / entry.path).stat().st_size == entry.size
        assert any(c.algorithm == "SHA256" for c in entry.checksums)
    assert command.verify(out["run"])[0] == 0

    # In a folder the export lies beside the runs; the file's s3:// URI is for the cluster.
    exported = Path(out["exported"].removeprefix("file://"))
    assert exported.is_relative_to(tmp_path / "trainsweep-runs" / "exports" / "default")
    best = Path(out["best"]["checkpoint"].removeprefix("file://"))
    for entry in best.iterdir():
        if entry.name != ".metadata.json":
            assert (exported / entry.name).read_bytes() == entry.read_bytes()
    record = json.loads((exported.parents[1] / "export.json").read_text())
    assert (record["state"], record["trial"], record["value"]) == ("Copied", "t0000", out["best"]["value"])

    # Once more: nothing is left to train, the run is proven anew as another attempt.
    command.run()
    code, again = command.end()
    assert (code, again["outcome"], again["verified"]) == (0, "Completed", True), again
    assert again["attempt"].startswith("3-")

    victim = next(path for path in sorted(best.iterdir()) if path.name != layout.MANIFEST)
    with victim.open("r+b") as opened:
        opened.write(b"\x00\xff\x00")
    code, looked = command.verify(out["run"])
    assert code == 1
    assert any(victim.name in line and "WrongChecksum" in line for line in looked["missing"])
