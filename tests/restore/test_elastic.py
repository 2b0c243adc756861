"""Elastic workers on a Ray of several nodes: one is lost in mid-epoch and comes back later."""

import json
import time

import pytest

from tests.local.cluster import running
from tests.local.harness import ROOT, Run, example
from trainsweep.contract import layout

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]

NODES = """
import sys, ray
from ray.cluster_utils import Cluster
from trainjobs.cluster import say_where
say_where()
cluster = Cluster()
cluster.add_node(num_cpus=0, resources={"trial_slot": 2}, include_dashboard=True, temp_dir=sys.argv[1])
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
print("address", cluster.address, flush=True)
for line in sys.stdin:
    if line == "lose\\n":
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    else:
        nodes.append(cluster.add_node(num_cpus=1))
    print("done", flush=True)
"""
"""A head for drivers and two nodes with room for one worker each."""

BATCHES = 450
"""Nearly four minutes for both epochs: Ray looks once a minute whether there is room for more workers."""


def newest(run):
    """What the newest committed checkpoint of the trial says, and how many there were before retention."""
    try:
        (file,) = run.root.glob(f"train/t0000-*/{layout.SNAPSHOT}")
        name = json.loads(file.read_text())["latest_checkpoint_result"]["checkpoint_dir_name"]
        return json.loads((file.parent / name / "progress.json").read_text())
    except (ValueError, OSError):  # there is none yet, or retention has just removed it
        return None


def wait_for_workers(run, count, seconds=1200):
    """Until a checkpoint was committed by so many workers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert run.process.poll() is None, run.text()[-6000:]
        found = newest(run)
        if found is not None and found["worldSize"] == count:
            return found
        time.sleep(0.3)
    raise AssertionError(f"no checkpoint of {count} workers: {newest(run)}\n{run.text()[-6000:]}")


def test_b8_a_lost_node_costs_one_restart_and_a_new_one_is_taken(tmp_path):
    spec = example("tiny")
    rate = {"name": "rate", "float": {"min": 0.003, "max": 0.003 + 1e-12}}
    spec["search"] = {"algorithm": {"random": {"seed": 1}}, "parameters": [rate]}
    spec["trials"] = {"count": 1}
    spec["training"] = {
        "entrypoint": "steps:train_loop",
        "workers": {"min": 1, "max": 2},
        "config": {"epochs": 2, "batches": BATCHES},
    }
    spec["failurePolicy"] = {"trialRetries": 0, "workerRestarts": 2}
    run = Run(tmp_path, spec, ROOT / "tests" / "local" / "loops", name="elastic")
    try:
        # How long Train waits for a worker that can no longer come, before it takes what is there.
        with running(NODES, RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S="45") as ray:
            run.start(cluster=ray.address)
            before = wait_for_workers(run, 2)
            ray.tell("lose")
            after = wait_for_workers(run, 1)
            assert after["step"] > before["step"], "it goes on behind its last checkpoint, not from the start"
            assert after["state"]["loaded"] == before["state"]["loaded"] + 1, "one event, one restart"
            ray.tell("add")
            wait_for_workers(run, 2)
            receipt, digest = run.receipt()
            last = json.loads((run.root / receipt.best.checkpoint / "progress.json").read_text())
            assert (last["step"], last["worldSize"]) == (2 * BATCHES, 2)
            # The very value of a run that nothing disturbed: every batch exactly once.
            assert receipt.best.value == pytest.approx(3 * 0.997 ** (2 * BATCHES))
            (record,) = run.trials()
            assert (record["state"], record["retries"]) == ("Succeeded", 0), "charged to the workers, not to the trial"
            run.answer(digest)
            assert run.end()["outcome"] == "Completed"
    finally:
        run.kill()
