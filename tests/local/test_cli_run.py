"""`trainsweep run --local` and `trainsweep verify` on examples/tiny, with the real driver and a real Ray."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.local.harness import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def trainsweep(*arguments):
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "trainsweep.cli.main", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=800)


def test_a_run_is_proven_and_exported_and_a_damaged_file_is_found_later(tmp_path):
    shutil.copytree(ROOT / "examples" / "tiny", tmp_path / "tiny")
    file = str(tmp_path / "tiny" / "sweep.yaml")
    body = yaml.safe_load((tmp_path / "tiny" / "sweep.yaml").read_text())
    body["spec"].setdefault("checkpoints", {})["export"] = {"uri": "s3://models"}
    (tmp_path / "tiny" / "sweep.yaml").write_text(yaml.safe_dump(body))
    first = trainsweep("run", file, "--local", "--storage", str(tmp_path), "--cpus", "4", "-o", "json")
    assert first.returncode == 0, first.stdout + first.stderr
    out = json.loads(first.stdout)
    assert (out["outcome"], out["verified"], out["proven"]) == ("Completed", True, 1)
    assert out["best"]["value"] == 0.75
    assert trainsweep("verify", out["run"]).returncode == 0
    # In a folder the export lies beside the runs; the file's s3:// URI is for the cluster.
    exported = Path(out["exported"].removeprefix("file://"))
    assert exported.is_relative_to(tmp_path / "exports" / "default")
    best = Path(out["best"]["checkpoint"].removeprefix("file://"))
    for entry in best.iterdir():
        if entry.name != ".metadata.json":
            assert (exported / entry.name).read_bytes() == entry.read_bytes()
    record = json.loads((exported.parents[1] / "export.json").read_text())
    assert (record["state"], record["trial"], record["value"]) == ("Copied", out["best"]["trial"], 0.75)

    # The same file again: nothing is left to train, the run is proven anew as another attempt.
    again = trainsweep("run", file, "--local", "--storage", str(tmp_path), "--cpus", "4", "-o", "json")
    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(again.stdout)["attempt"].startswith("2-")

    checkpoint = out["best"]["checkpoint"].removeprefix("file://")
    victim = next(name for name in sorted(os.listdir(checkpoint)) if name != "trainsweep-manifest.json")
    with open(os.path.join(checkpoint, victim), "r+b") as opened:
        opened.write(b"\x00\xff\x00")
    looked = trainsweep("verify", out["run"], "-o", "json")
    assert looked.returncode == 1
    assert any(victim in line and "WrongChecksum" in line for line in json.loads(looked.stdout)["missing"])


SLOW = """
apiVersion: trainsweep.io/v1alpha1
kind: TrainSweep
metadata: {name: slow}
spec:
  objective: {metric: loss, mode: Minimize}
  search:
    algorithm: {grid: {}}
    parameters: [{name: rate, categorical: {values: [0.5, 0.25]}}]
  trials: {maxConcurrent: 2}
  training: {entrypoint: "train:train_loop", config: {epochs: 40, seconds: 1}}
"""


class Command:
    """`trainsweep run` in a process of its own, with what it wrote about its trials."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "sweep.yaml").write_text(SLOW)
        (folder / "train.py").write_text((ROOT / "examples" / "tiny" / "train.py").read_text())

    def start(self):
        command = [
            sys.executable,
            "-m",
            "trainsweep.cli.main",
            "run",
            "sweep.yaml",
            "--local",
            "--cpus",
            "4",
            "-o",
            "json",
        ]
        env = os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
        self.process = subprocess.Popen(
            command, env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def trials(self):
        found = list((self.folder / "trainsweep-runs").glob("default/slow/*/trials.jsonl"))
        return [json.loads(line) for line in found[0].read_text().splitlines()] if found else []

    def wait_for_step(self, step):
        end = time.monotonic() + 400
        while time.monotonic() < end and not any(t.get("step", 0) >= step for t in self.trials()):
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.2)
        assert any(t.get("step", 0) >= step for t in self.trials())

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds):
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, json.loads(out), err


def test_ctrl_c_twice_ends_now_and_the_same_command_goes_on_and_once_ends_well(tmp_path):
    run = Command(tmp_path)
    run.start()
    run.wait_for_step(1)
    run.interrupt()
    time.sleep(1)
    run.interrupt()
    began = time.monotonic()
    code, _, said = run.end(120)
    assert code == 1
    assert time.monotonic() - began < 90  # 15 s, and a second look at the store
    assert "ending the driver now" in said

    run.start()
    reached = max(t["step"] for t in run.trials())
    run.wait_for_step(reached + 1)
    run.interrupt()
    code, out, _ = run.end(200)
    assert code == 1
    assert (out["outcome"], out["verified"], out["exitCode"]) == ("Stopped", True, 5)
    assert out["receipt"]
    stopped = {t["trial"]: t["step"] for t in run.trials()}
    assert max(stopped.values()) < 40
