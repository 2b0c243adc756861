"""The main path: the digits example as a user applies it, proven while the job runs, then released."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from devcluster.demo import seconds
from tests.e2e.lab import Lab
from tests.together import concurrent

ROOT = Path(__file__).resolve().parents[2]

POST = """
import json, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1], json.dumps({"entrypoint": "id"}).encode(), {"Content-Type": "application/json"})
try:
    print(urllib.request.urlopen(request, timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@concurrent
def test_digits_is_trained_proven_and_released(lab: Lab) -> None:
    lab.cluster.kubectl("apply", "--server-side", "-k", ROOT / "examples" / "digits")
    running = lab.reported("digits")
    assert running.condition("DashboardProtected")[0] == "True"
    address = f"http://{lab.head('digits')['status']['podIP']}:8265/api/jobs/"
    assert lab.cluster.exec_on_node(sys.executable, "-c", POST, address).strip() == "401", "nobody else starts a job"
    proven = lab.wait("digits", "verified", lambda s: s.condition("CheckpointsVerified")[0] == "True")
    assert lab.items("pods", "digits"), "proven while its pods are still there"
    done = lab.finished("digits")
    assert done.condition("Succeeded")[:2] == ("True", "Completed"), done
    assert done.status["trials"]["summary"] == "6/6"
    released = lab.released("digits")
    assert lab.items("pods", "digits") == []
    assert lab.items("trainsweepholds", "digits") == []
    lab.wait("digits", "its finalizer to go", lambda s: "finalizers" not in s.body["metadata"])
    attempt = released.status["attempts"][-1]
    verified, gone = seconds(proven.status["checkpoints"]["verifiedAt"]), seconds(attempt["goneAt"])
    assert verified is not None
    assert gone is not None
    assert verified <= gone
    receipt = lab.document(released, "receipt.json")
    assert receipt["outcome"] == "Completed"
    keys = lab.keys(lab.prefix(released))
    for item in receipt["owed"]:
        for file in item["files"]:
            assert keys[f"{lab.prefix(released)}{item['checkpoint']}/{file['path']}"] == file["size"]
    env = {**os.environ, **lab.cluster.env(), "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}"}
    said = subprocess.run(
        [sys.executable, ROOT / "examples" / "digits" / "evaluate.py", released.status["best"]["checkpointURI"]],
        env=env, check=True, capture_output=True, text=True,
    )  # fmt: skip
    judged = json.loads(said.stdout)
    assert judged["accuracy"] >= 0.95
    assert judged["untrained"] < 0.3
