"""`trainsweep run --local` and `trainsweep verify` on examples/tiny, with the real driver and a real Ray."""

import json
import os
import shutil
import subprocess
import sys
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
