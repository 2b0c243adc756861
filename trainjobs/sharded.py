"""Models that are sharded over the workers (FSDP2): saved and loaded with `torch.distributed.checkpoint`.

Every rank writes its own shards under a name that carries its rank, so the upload of one never replaces another's. The
index says which part of which tensor lies where: it loads at another number of workers, and in a single process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainjobs.checkpoint import SHARDS


def is_sharded(model: Any) -> bool:
    """Whether a module's parameters are distributed over ranks: `fully_shard` has been called on it."""
    import torch

    if model is None or not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor

    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def _states(model: Any, optimizer: Any) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

    states: dict[str, Any] = {"model": get_model_state_dict(model)}
    if optimizer is not None:
        states["optimizer"] = get_optimizer_state_dict(model, optimizer)
    return states


def save_shards(folder: Path, model: Any, optimizer: Any) -> None:
    """Writes this rank's shards. A collective: every rank calls it, each with a folder of its own.

    Args:
        folder: the checkpoint's local folder of this rank.
        model: the sharded module.
        optimizer: its optimizer, or None.
    """
    import torch.distributed.checkpoint as dcp

    place = folder / SHARDS
    place.mkdir(exist_ok=True)
    writer = dcp.FileSystemWriter(place, single_file_per_rank=True, sync_files=False, overwrite=True)
    dcp.save(_states(model, optimizer), storage_writer=writer)


def load_shards(folder: Path, model: Any, optimizer: Any) -> None:
    """Reads what belongs to this rank, at whatever number of workers. Every rank calls it.

    Args:
        folder: the whole checkpoint.
        model: sharded as it is now, or a plain module.
        optimizer: its optimizer, or None to load the model alone.
    """
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

    states = _states(model, optimizer)
    dcp.load(states, storage_reader=dcp.FileSystemReader(folder / SHARDS), no_dist=not dist.is_initialized())
    set_model_state_dict(model, states["model"])
    if optimizer is not None:
        set_optimizer_state_dict(model, optimizer, states["optimizer"])
