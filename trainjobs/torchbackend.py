"""Torch's process group on whatever the workers really have: NCCL where CUDA works, gloo elsewhere.

The choice is made on a worker: the trial driver runs on the head, which has no GPU.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from ray.train.torch import TorchConfig
from ray.train.torch.config import _TorchBackend


def _cuda() -> bool:
    return bool(torch.cuda.is_available())


class _ProbingBackend(_TorchBackend):
    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        # Ray takes NCCL as soon as a GPU was asked for; without a driver on the node that ends the process.
        backend = "nccl" if worker_group.execute_single(0, _cuda) else "gloo"
        super().on_start(worker_group, dataclasses.replace(backend_config, backend=backend))


@dataclasses.dataclass
class ProbingTorchConfig(TorchConfig):
    """A TorchConfig that looks before it chooses."""

    @property
    def backend_cls(self) -> type[_TorchBackend]:
        """The backend to set up."""
        return _ProbingBackend
