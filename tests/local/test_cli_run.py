"""`trainsweep run --local` and `trainsweep verify` on examples/tiny, with the real driver and a real Ray."""

import json
import os
import subprocess
import sys

import pytest

from tests.local.harness import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def trainsweep(*arguments):
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "trainsweep.cli.main", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=800)


def test_a_run_is_proven_and_a_damaged_file_is_found_later(tmp_path):
    file = str(ROOT / "examples" / "tiny" / "sweep.yaml")
    first = trainsweep("run", file, "--local", "--storage", str(tmp_path), "--cpus", "4", "-o", "json")
    assert first.returncode == 0, first.stdout + first.stderr
    out = json.loads(first.stdout)
    assert (out["outcome"], out["verified"], out["proven"]) == ("Completed", True, 1)
    assert out["best"]["value"] == 0.75
    assert trainsweep("verify", out["run"]).returncode == 0

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
