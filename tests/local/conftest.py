"""One Ray for all tests here, as the pods of a RayCluster would hold it: two trial slots, two CPUs."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import sys, time, ray
for tries_left in (2, 1, 0):
    try:
        ray.init(num_cpus=2, resources={"trial_slot": 2}, include_dashboard=True, _temp_dir=sys.argv[1])
        break
    except Exception:  # Ray gives its own processes 30 s, fixed: a machine that runs other tests too may need more
        ray.shutdown()
        if not tries_left:
            raise
print("address", ray.get_runtime_context().gcs_address, flush=True)
time.sleep(7200)
"""


def _ray() -> Iterator[str]:
    """A Ray's address, while it runs."""
    folder = tempfile.mkdtemp(prefix="tjray-", dir="/tmp")  # Ray's socket paths must stay short
    places = [ROOT / "operator", ROOT, ROOT / "examples" / "tiny", ROOT / "tests" / "local" / "loops"]
    environment = {
        **os.environ,
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
        "RAY_worker_register_timeout_seconds": "600",
        "PYTHONPATH": ":".join(map(str, places)),  # as on every pod of the cluster
    }
    process = subprocess.Popen(
        [sys.executable, "-c", START, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        for line in process.stdout:
            if line.startswith("address "):
                yield line.split()[1]
                return
        raise RuntimeError("Ray did not start")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="session")
def cluster():
    """Address of the cluster."""
    yield from _ray()


@pytest.fixture
def next_cluster():
    """Address of a second cluster, as a later attempt has one.

    In the first, Ray keeps a killed trial's room for three minutes more, and an elastic trial would be given less.
    """
    yield from _ray()
