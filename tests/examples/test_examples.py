"""`make examples`: every example is trained on this machine, as it stands, and proven; its model is better than chance."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.local.harness import ROOT, Run, example
from trainsweep.contract import layout

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

NAMES = sorted(p.parent.name for p in (ROOT / "examples").glob("*/sweep.yaml"))
GOOD_ENOUGH = {
    "byo": lambda v: v < 0.6,  # ln 3 = 1.1 by chance
    "chartransformer": lambda v: v < 5.0,  # log2 97 = 6.6 by chance
    "digits": lambda v: v > 0.8,  # 0.1 by chance
    "tabular": lambda v: v < 0.25,  # ln 2 = 0.69 by chance
    "tiny": lambda v: v == 0.75,
}


def trainsweep(*arguments):
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "trainsweep.cli.main", *arguments]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=1700)


def test_no_example_is_left_out():
    assert set(NAMES) == set(GOOD_ENOUGH)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_trains_and_is_proven(tmp_path, name):
    file = ROOT / "examples" / name / "sweep.yaml"
    ran = trainsweep("run", str(file), "--local", "--storage", str(tmp_path), "--cpus", "4", "-o", "json")
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]
    out = json.loads(ran.stdout)
    assert (out["outcome"], out["verified"]) == ("Completed", True)
    assert GOOD_ENOUGH[name](out["best"]["value"]), out["best"]
    assert trainsweep("verify", out["run"]).returncode == 0
    print(f"\n{name}: best {out['best']['value']:.4g}, proven")


def test_the_sharded_example_goes_on_at_another_world_size(tmp_path):
    """Two workers, a stop in the middle of an epoch, then one worker from the same shards."""
    spec = example("chartransformer")
    spec["search"]["parameters"] = [{"name": "lr", "float": {"min": 2e-3, "max": 3e-3}}]
    spec["trials"] = {"count": 1}
    spec["training"]["config"] |= {"layers": 1, "epochs": 3, "saveSeconds": 2, "windows": 3200}
    run = Run(tmp_path, spec, ROOT / "examples" / "chartransformer", name="chartransformer")
    try:
        run.start(1, cpus=4)
        run.wait_for(lambda p: p.trials.running and run.trials()[0].get("step", 0) >= 1)
        run.ask_to_stop("Suspended", grace=120)
        receipt, digest = run.receipt()
        (owed,) = [o for o in receipt.owed if o.checkpoint == newest(run)]
        run.answer(digest)
        run.end()
        shards = {f.path for f in owed.files if f.path.endswith(".distcp")}
        assert shards == {"shards/__0_0.distcp", "shards/__1_0.distcp"}
        saved = json.loads((run.root / owed.checkpoint / "progress.json").read_text())
        assert saved["worldSize"] == 2
        assert 1 <= saved["epoch"] < 3
        assert saved["step"] > 100 * saved["epoch"], "the stop came inside of an epoch"

        spec["training"]["workers"] = {"count": 1}
        run.start(2, cpus=4)
        receipt, digest = run.receipt()
        run.answer(digest)
        assert run.end()["outcome"] == "Completed"
        last = json.loads((run.root / newest(run) / "progress.json").read_text())
        assert (last["worldSize"], last["epoch"]) == (1, 3)
        assert last["step"] == 300, "every batch of every epoch exactly once"
        assert f"t0000 epoch {saved['epoch'] + 1}:" in run.text()
        assert f"t0000 epoch {saved['epoch']}:" not in run.text()
        shown = subprocess.run(
            [sys.executable, "evaluate.py", str(run.root / receipt.best.checkpoint), "1", "48", "64"],
            cwd=ROOT / "examples" / "chartransformer",
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'operator'}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert shown.returncode == 0, shown.stderr
        found = json.loads(shown.stdout)
        assert found["bitsPerChar"] < found["untrained"] - 1
    finally:
        run.kill()


def newest(run: Run) -> str:
    """Key of the newest committed checkpoint of the only trial."""
    (snapshot,) = (run.root / layout.TRAIN).glob(f"*/{layout.SNAPSHOT}")
    name = json.loads(snapshot.read_text())["latest_checkpoint_result"]["checkpoint_dir_name"]
    return f"{layout.TRAIN}/{snapshot.parent.name}/{name}"


def test_the_sweeps_of_the_examples_are_small_enough_for_a_laptop():
    for name in NAMES:
        spec = yaml.safe_load((Path(ROOT) / "examples" / name / "sweep.yaml").read_text())["spec"]
        assert spec["training"].get("workers", {"count": 1})["count"] <= 2, name
