"""The connection to Ray: the cluster that this driver was started in, or one on this machine."""

from __future__ import annotations

import logging
import os
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
    _start_here(
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


def _start_here(**options: Any) -> None:
    """Starts Ray on this machine. Ray gives its own processes 30 s, fixed, which a busy laptop may pass: try again."""
    for tries_left in (1, 0):
        try:
            ray.init(**options)
            return
        except Exception as error:  # Ray raises a plain Exception here
            if "timed out during startup" not in str(error) or not tries_left:
                raise
            logger.warning("Ray did not start within 30 s: trying again")
            ray.shutdown()


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
