"""A Ray in a process of its own, as the pods of a RayCluster would hold it: two trial slots, two CPUs."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATHS = [ROOT / "operator", ROOT, ROOT / "examples" / "tiny", ROOT / "tests" / "local" / "loops"]

ENVIRONMENT = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "600",
    "RAY_worker_register_timeout_seconds": "600",
    # A machine that runs other tests too may need more than the half minute that these have.
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "300",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300",
    "PYTHONPATH": ":".join(map(str, PATHS)),  # as on every pod of the cluster
}

ONE_NODE = """
import sys, time, ray
from trainjobs.cluster import start_here
start_here(num_cpus=2, resources={"trial_slot": 2}, include_dashboard=True, _temp_dir=sys.argv[1])
print("address", ray.get_runtime_context().gcs_address, flush=True)
time.sleep(7200)
"""


class Running:
    """A program that started Ray: where it is, and how to tell the program something."""

    def __init__(self, process: subprocess.Popen, address: str) -> None:
        self.process, self.address = process, address

    def tell(self, word: str) -> None:
        """Writes a line to the program and waits for its answer, `done`."""
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextlib.contextmanager
def running(program: str = ONE_NODE, **environment: str) -> Iterator[Running]:
    """Runs a program that starts Ray in the folder it is given and prints its address."""
    folder = tempfile.mkdtemp(prefix="tjray-", dir="/tmp")  # Ray's socket paths must stay short
    process = subprocess.Popen(
        [sys.executable, "-c", program, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | ENVIRONMENT | environment,
        start_new_session=True,
    )
    try:
        for line in process.stdout:
            if line.startswith("address "):
                yield Running(process, line.split()[1])
                return
        raise RuntimeError("Ray did not start")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
