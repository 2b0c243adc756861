"""The device of this worker, without touching CUDA where there is none."""

from __future__ import annotations

from typing import Any


def device() -> Any:
    """The torch device to train on: the worker's GPU where CUDA works, else the CPU.

    Ray believes in GPUs that Kubernetes promises; a node without a driver then fails inside `get_device()`. This asks
    CUDA first.
    """
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    import ray.train.torch

    return ray.train.torch.get_device()
