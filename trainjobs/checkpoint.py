"""Full-state checkpoints for training loops: model, optimizer, LR scheduler, random numbers, data position, own state.

Example:
    >>> start = checkpoint.load(model=model, optimizer=optimizer, sampler=sampler)
    >>> for epoch in trainjobs.epochs(start, config["epochs"]):
    ...     train_one_epoch()
    ...     trainjobs.report({"loss": loss}, model=model, optimizer=optimizer, sampler=sampler)

Files: `progress.json` (epoch, metrics, own state), `state.pt` (model, optimizer, scheduler; rank 0), `rank-<r>.pt`
(random numbers and data position of each rank), a manifest of each rank. All load with `weights_only=True`.
A model sharded over ranks (FSDP) does not go in here: write rank-unique files with `torch.distributed.checkpoint` and
report the directory.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainjobs import session
from trainjobs.manifest import manifest_name, pieces, write_manifest
from trainsweep.contract.documents import Manifest

PROGRESS, STATE = "progress.json", "state.pt"


class CheckpointMismatchError(RuntimeError):
    """A checkpoint that belongs to another configuration, or whose files are not those of its manifest."""


@dataclass(frozen=True)
class Resume:
    """Where a loop goes on."""

    epoch: int = 0
    """Finished epochs; 0 for a fresh start."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """As last reported."""
    state: Any = None
    """The loop's own JSON state, as given to `report(state=...)`."""


def _rank_file(rank: int) -> str:
    return f"rank-{rank}.pt"


def _unwrap(model: Any) -> Any:
    """The model inside of DistributedDataParallel: saved without the wrapper, it loads with and without one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return model.module
    return model


def _random_state() -> dict[str, Any]:
    import torch

    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = (name, [int(k) for k in keys], int(position), int(has_gauss), float(cached))
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: Mapping[str, Any]) -> None:
    import torch

    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        name, keys, position, has_gauss, cached = state["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, cached))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def save(
    folder: str | Path,
    *,
    epoch: int,
    metrics: Mapping[str, Any] | None = None,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    sampler: Any = None,
    state: Any = None,
    rank: int = 0,
    world_size: int = 1,
    config_hash: str = "",
) -> Manifest:
    """Writes a checkpoint of this rank into a local folder and its manifest last.

    Args:
        folder: an existing folder of this rank's own.
        epoch: finished epochs.
        metrics: as reported; handed back by `load`.
        model: a torch module, also inside of DistributedDataParallel; saved by rank 0.
        optimizer: as is; saved by rank 0.
        lr_scheduler: as is; saved by rank 0.
        sampler: a sampler with an `epoch` (DistributedSampler) or a `state_dict()`; of each rank.
        state: the loop's own state, any JSON; saved by rank 0.
        rank: of this worker.
        world_size: number of workers.
        config_hash: of the trial; absent: the current session's.
    """
    place = Path(folder)
    digest = config_hash or session.current().config_hash
    torch_parts = {"model": _unwrap(model), "optimizer": optimizer, "lr_scheduler": lr_scheduler}
    torch_state = {name: part.state_dict() for name, part in torch_parts.items() if part is not None}
    if rank == 0:
        progress = {
            "epoch": epoch,
            "metrics": dict(metrics or {}),
            "configHash": digest,
            "worldSize": world_size,
            "state": state,
        }
        (place / PROGRESS).write_text(json.dumps(progress))
    if torch_state:
        import torch

        if rank == 0:
            torch.save(torch_state, place / STATE)
        own: dict[str, Any] = {"random": _random_state()}
        if sampler is not None:
            own["sampler"] = sampler.state_dict() if hasattr(sampler, "state_dict") else {"epoch": sampler.epoch}
        torch.save(own, place / _rank_file(rank))
    return write_manifest(place, rank=rank, world_size=world_size, config_hash=digest, step=epoch)


def read(
    folder: str | Path,
    *,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    sampler: Any = None,
    rank: int = 0,
    config_hash: str | None = None,
    device: Any = "cpu",
) -> Resume:
    """Reads a checkpoint from a local folder into the given objects: the counterpart of `save`, outside of a sweep too.

    A rank that the checkpoint does not know (more workers than before) starts with fresh random numbers.

    Raises:
        CheckpointMismatchError: for another configuration, or a file that is not as the manifest says.
    """
    place = Path(folder)
    _check(place, rank, config_hash)
    progress_file = place / PROGRESS
    progress = json.loads(progress_file.read_text()) if progress_file.exists() else {}
    if config_hash and progress.get("configHash", config_hash) != config_hash:
        raise CheckpointMismatchError(
            f"the checkpoint belongs to configuration {progress['configHash']}, this trial is {config_hash}: "
            "it is not loaded, as a trial must never continue from another's weights"
        )
    if any(part is not None for part in (model, optimizer, lr_scheduler)):
        import torch

        loaded = torch.load(place / STATE, map_location=device, weights_only=True)
        parts = {"model": _unwrap(model), "optimizer": optimizer, "lr_scheduler": lr_scheduler}
        for name, part in parts.items():
            if part is not None:
                part.load_state_dict(loaded[name])
        own_file = place / _rank_file(rank)
        if own_file.exists():
            own = torch.load(own_file, map_location="cpu", weights_only=True)
            if sampler is not None and "sampler" in own:
                if hasattr(sampler, "load_state_dict"):
                    sampler.load_state_dict(own["sampler"])
                elif hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(own["sampler"]["epoch"])
            _set_random_state(own["random"])
    return Resume(int(progress.get("epoch", 0)), progress.get("metrics", {}), progress.get("state"))


def _check(place: Path, rank: int, config_hash: str | None) -> None:
    """Compares this rank's files with its manifest: half an upload must not be loaded as a whole one."""
    from trainjobs.checksums import checksums_of, sha256

    for name in {manifest_name(0), manifest_name(rank)}:
        path = place / name
        if not path.exists():
            continue
        manifest = Manifest.model_validate_json(path.read_bytes())
        if config_hash and manifest.config_hash != config_hash:
            raise CheckpointMismatchError(
                f"the checkpoint belongs to configuration {manifest.config_hash}, this trial is {config_hash}"
            )
        for entry in manifest.files:
            file = place / entry.path
            if not file.exists():
                raise CheckpointMismatchError(f"{entry.path} of the checkpoint is missing")
            size, sums = checksums_of(pieces(file))
            if size != entry.size or sha256(sums) != sha256(entry.checksums):
                raise CheckpointMismatchError(f"{entry.path} of the checkpoint is damaged")


def load(
    *,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    sampler: Any = None,
) -> Resume:
    """Loads the trial's newest committed checkpoint into the given objects; a fresh start where there is none.

    Call it on every rank before the first epoch. All is loaded to the CPU first and moved by the objects themselves.

    Raises:
        CheckpointMismatchError: see `read`.
    """
    import ray.train

    here = session.current()
    found = ray.train.get_checkpoint()
    if found is None:
        return Resume()
    rank = ray.train.get_context().get_world_rank()
    with found.as_directory() as folder:
        resume = read(
            folder,
            model=model,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            sampler=sampler,
            rank=rank,
            config_hash=here.config_hash,
        )
    here.epoch, here.metrics = resume.epoch, dict(resume.metrics)
    return resume
