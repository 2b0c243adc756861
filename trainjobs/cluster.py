"""The connection to Ray: the cluster that this driver was started in, or one on this machine."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import time
from typing import Any

import ray

from trainjobs.outcome import DriverError
from trainjobs.sweep import Sweep
from trainsweep.contract.documents import FailureReason

logger = logging.getLogger(__name__)

SLOT = "trial_slot"


def connect(sweep: Sweep, *, local: bool, cpus: int | None) -> tuple[int, str]:
    """Connects to Ray.

    Args:
        sweep: what is going to run.
        local: start Ray here instead of looking for a cluster.
        cpus: with local, the CPUs that Ray may use; absent: this machine's.

    Returns:
        Trials at a time, and the resource that each trial driver holds.

    Raises:
        DriverError: where one trial does not fit on this machine.
    """
    wanted = sweep.spec.trials.max_concurrent
    resource = sweep.file.trial_resource or SLOT
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # a stop is ours: two phases, then the settlement
    namespace = f"trainsweep-{sweep.file.attempt_id}-{os.getpid()}"
    if not local:
        ray.init(address="auto", namespace=namespace, log_to_driver=True)
        return wanted, resource
    one = sweep.fewest_workers * sweep.cpus
    have = cpus or os.cpu_count() or 1
    if one > have:
        raise DriverError(
            FailureReason.INVALID_SWEEP,
            f"training.workers: one trial takes {one} CPUs, this machine has {have}: lower count or resources.cpu",
        )
    at_once = min(wanted, max(1, have // one) if one else wanted)
    if at_once < wanted:
        logger.warning("trials.maxConcurrent is %d, but %d CPUs hold %d trial(s) at a time", wanted, have, at_once)
    for item in sweep.spec.training.env:
        if item.value is not None:
            os.environ.setdefault(item.name, item.value)
    # Nobody brings more nodes here: a worker group waits for its turn instead of failing.
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "600")
    os.environ.setdefault("RAY_worker_register_timeout_seconds", "300")  # 60 is short for a busy laptop
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    start_here(
        num_cpus=have,
        resources={resource: at_once},
        # Not for looking at: when Tune stops a trial, Ray's cleaner asks the dashboard whether its controller is dead.
        # Without an answer the workers' CPUs stay reserved to the end of the job, and the next trial waits for ever.
        include_dashboard=True,
        namespace=namespace,
        log_to_driver=True,
        runtime_env=dict(sweep.spec.training.runtime_env) or None,
    )
    if sweep.gpus * sweep.fewest_workers > ray.cluster_resources().get("GPU", 0):
        raise DriverError(
            FailureReason.INVALID_SWEEP,
            f"training.workers: one trial takes {sweep.gpus * sweep.fewest_workers} GPUs, this machine has "
            f"{int(ray.cluster_resources().get('GPU', 0))}: leave nvidia.com/gpu out to train on the CPU",
        )
    return at_once, resource


def size() -> tuple[float, float]:
    """GPUs and CPUs of the nodes that are there now."""
    total = ray.cluster_resources()
    return float(total.get("GPU", 0)), float(total.get("CPU", 0))


SLOW_START = ("timed out during startup", "Timeout after", "Failed to start a dashboard")
"""Words of Ray's errors where one of its own processes was too slow."""


def start_here(**options: Any) -> None:
    """Starts Ray on this machine. Ray gives its own processes 30 s, fixed, which a busy laptop may pass: try again."""
    for tries_left in (2, 1, 0):
        say_where()
        before = _children()
        try:
            # Never a cluster that somebody began here with `ray start`: it has neither our slots nor our settings.
            ray.init(address="local", **options)
            return
        except Exception as error:  # Ray raises a plain Exception here
            if not any(words in str(error) for words in SLOW_START) or not tries_left:
                raise
            logger.warning("Ray did not start in time: trying again")
            ray.shutdown()
            for process in _children() - before:  # Ray leaves them, and they would slow the next try
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)


def _children() -> set[int]:
    """Processes below this one."""
    import psutil  # type: ignore[import-untyped]  # comes with Ray, without types

    return {child.pid for child in psutil.Process().children(recursive=True)}


def say_where() -> None:
    """Tells the processes of the Ray that is about to start which one they belong to.

    Train's cleaner looks for Ray anew, and gives up where it finds two on a machine: the workers of a trial that Tune has
    stopped would then keep their CPUs, and the next trial would wait for ever (Ray 2.58).
    """
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    os.environ["RAY_GCS_SERVER_PORT"] = str(port)
    os.environ["RAY_ADDRESS"] = f"{ray.util.get_node_ip_address()}:{port}"


def wait_until_idle(resource: str, seconds: float = 30.0) -> bool:
    """Waits until no trial holds anything any more: a worker that is still alive may commit, or delete, a checkpoint.

    A stop of Tune kills the trial driver; Train's controller follows about 2 s later, its workers within about 6 s.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        total, free = ray.cluster_resources(), ray.available_resources()
        if all(free.get(name, 0) >= total.get(name, 0) for name in (resource, "CPU", "GPU")):
            return True
        time.sleep(0.5)
    logger.warning("something still holds resources after %.0f s: settling nevertheless", seconds)
    return False
