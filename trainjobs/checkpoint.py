"""Full-state checkpoints: model, optimizer, LR scheduler, AMP scaler, random numbers, data position, the loop's own state.

Example:
    >>> start = checkpoint.load(model=model, optimizer=optimizer, sampler=sampler)
    >>> for epoch in trainjobs.epochs(start, config["epochs"]):
    ...     train_one_epoch()
    ...     trainjobs.report({"loss": loss}, model=model, optimizer=optimizer, sampler=sampler)

Files: `progress.json` (epoch, step, metrics, own state), `state.pt` (model, optimizer, scheduler, scaler; rank 0),
`rank-<r>.pt` (random numbers and data position of each rank), a manifest of each rank. All load with `weights_only=True`.
A model that is sharded over the ranks (FSDP2's `fully_shard`) and its optimizer lie in `shards/` instead, written by all
ranks with `torch.distributed.checkpoint` under names that do not clash; they load at any number of workers.

Nothing here needs a sweep: `save` and `read` work on any folder, `load` in any Ray Train worker.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainjobs import session
from trainjobs.manifest import is_manifest, manifest_name, pieces, write_manifest
from trainjobs.randomness import random_state, set_random_state
from trainsweep.contract.documents import Manifest

logger = logging.getLogger(__name__)

PROGRESS, STATE = "progress.json", "state.pt"
SHARDS = "shards"


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
    step: int = 0
    """Optimizer steps, as given to `report(step=...)`."""


def _rank_file(rank: int) -> str:
    return f"rank-{rank}.pt"


def _unwrap(model: Any) -> Any:
    """The model inside of DistributedDataParallel: saved without the wrapper, it loads with and without one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return model.module
    return model


def _sharded(model: Any) -> bool:
    if "torch" not in sys.modules:
        return False
    from trainjobs.sharded import is_sharded

    return is_sharded(model)


def save(
    folder: str | Path,
    *,
    epoch: int,
    metrics: Mapping[str, Any] | None = None,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    state: Any = None,
    step: int = 0,
    rank: int = 0,
    world_size: int = 1,
    config_hash: str = "",
    manifest: bool = True,
) -> None:
    """Writes a checkpoint of this rank into a local folder, its manifest last.

    For a sharded model this is a collective: every rank calls it.

    Args:
        folder: an existing folder of this rank's own.
        epoch: finished epochs.
        metrics: as reported; handed back by `load`.
        model: a torch module, also inside of DistributedDataParallel; saved by rank 0.
        optimizer: as is; saved by rank 0.
        lr_scheduler: as is; saved by rank 0.
        scaler: of mixed precision (`torch.amp.GradScaler`); saved by rank 0.
        sampler: a sampler with a `state_dict()` (ResumableSampler) or an `epoch` (DistributedSampler); of each rank.
        state: the loop's own state, any JSON; saved by rank 0.
        step: optimizer steps so far.
        rank: of this worker.
        world_size: number of workers.
        config_hash: of the trial; absent: the current session's.
        manifest: False where the upload writes it.
    """
    place = Path(folder)
    digest = config_hash or session.current().config_hash
    sharded = _sharded(model)
    torch_parts = {"lr_scheduler": lr_scheduler, "scaler": scaler}
    if not sharded:
        torch_parts |= {"model": _unwrap(model), "optimizer": optimizer}
    torch_state = {name: part.state_dict() for name, part in torch_parts.items() if part is not None}
    if rank == 0:
        progress = {
            "epoch": epoch,
            "step": step,
            "metrics": dict(metrics or {}),
            "configHash": digest,
            "worldSize": world_size,
            "state": state,
        }
        (place / PROGRESS).write_text(json.dumps(progress))
    if sharded:
        from trainjobs.sharded import save_shards

        save_shards(place, model, optimizer)
    if torch_state or sharded or sampler is not None:
        import torch

        if rank == 0 and torch_state:
            torch.save(torch_state, place / STATE)
        own: dict[str, Any] = {"random": random_state()}
        if sampler is not None:
            own["sampler"] = sampler.state_dict() if hasattr(sampler, "state_dict") else {"epoch": sampler.epoch}
        torch.save(own, place / _rank_file(rank))
    if manifest:
        write_manifest(place, rank=rank, world_size=world_size, config_hash=digest, step=epoch)


def read(
    folder: str | Path,
    *,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    rank: int = 0,
    config_hash: str | None = None,
    device: Any = "cpu",
    share: tuple[int, int] = (0, 1),
) -> Resume:
    """Reads a checkpoint from a local folder into the given objects: the counterpart of `save`, outside of a sweep too.

    The number of workers may differ from the one that saved: shards are dealt out anew, a rank that the checkpoint does
    not know takes rank 0's data position and keeps its own random numbers.

    Args:
        folder: the whole checkpoint.
        model: see `save`; a plain module also takes a sharded checkpoint.
        optimizer: see `save`.
        lr_scheduler: see `save`.
        scaler: see `save`.
        sampler: see `save`.
        rank: of this worker.
        config_hash: what the checkpoint must belong to; None: whatever is there.
        device: where tensors of `state.pt` are put first.
        share: (i, n) where n readers of one folder share the comparison with the manifests, and this is number i.

    Raises:
        CheckpointMismatchError: for another configuration, or a file that is not as the manifest says.
    """
    place = Path(folder)
    check(place, config_hash=config_hash, share=share)
    progress_file = place / PROGRESS
    progress = json.loads(progress_file.read_text()) if progress_file.exists() else {}
    if config_hash and progress.get("configHash", config_hash) != config_hash:
        raise CheckpointMismatchError(
            f"the checkpoint belongs to configuration {progress['configHash']}, this trial is {config_hash}: "
            "it is not loaded, as a trial must never continue from another's weights"
        )
    shards = (place / SHARDS).is_dir()
    if shards and model is not None:
        from trainjobs.sharded import load_shards

        load_shards(place, model, optimizer)
    elif _sharded(model):
        raise CheckpointMismatchError(
            "the checkpoint holds a whole model, this one is sharded (fully_shard): load it into the plain module first, "
            "then shard"
        )
    parts = {"lr_scheduler": lr_scheduler, "scaler": scaler}
    if not shards:
        parts |= {"model": _unwrap(model), "optimizer": optimizer}
    _read_torch(place, {name: part for name, part in parts.items() if part is not None}, device)
    _read_rank(place, rank, sampler)
    return Resume(
        int(progress.get("epoch", 0)), progress.get("metrics", {}), progress.get("state"), int(progress.get("step", 0))
    )


def _read_torch(place: Path, parts: Mapping[str, Any], device: Any) -> None:
    if not parts:
        return
    import torch

    path = place / STATE
    loaded = torch.load(path, map_location=device, weights_only=True) if path.exists() else {}
    for name, part in parts.items():
        if name not in loaded:
            raise CheckpointMismatchError(
                f"the checkpoint holds no {name}, only {', '.join(sorted(loaded)) or 'no torch state'}: "
                "report and load the same parts"
            )
        if name == "scaler" and not (loaded[name] and part.is_enabled()):
            continue  # one of the two ran without mixed precision: its state is empty
        part.load_state_dict(loaded[name])


def _read_rank(place: Path, rank: int, sampler: Any) -> None:
    """The data position, then the random numbers: nothing that follows may draw any."""
    own_file = place / _rank_file(rank)
    known = own_file.exists()
    if not known:
        own_file = place / _rank_file(0)  # its data position holds for every rank
    if not own_file.exists():
        return
    import torch

    own = torch.load(own_file, map_location="cpu", weights_only=True)
    if sampler is not None and "sampler" in own:
        if hasattr(sampler, "load_state_dict"):
            sampler.load_state_dict(own["sampler"])
        elif hasattr(sampler, "set_epoch"):
            sampler.set_epoch(own["sampler"]["epoch"])
    if known:
        set_random_state(own["random"])
    else:
        logger.warning("rank %d is new to the checkpoint: it keeps its own random numbers", rank)


def check(folder: str | Path, *, config_hash: str | None = None, share: tuple[int, int] = (0, 1)) -> None:
    """Compares a checkpoint's files with its manifests: half an upload must not be loaded as a whole one.

    A folder without any manifest (a loop that reports by plain `ray.train`) passes.

    Args:
        folder: the whole checkpoint.
        config_hash: what it must belong to; None: whatever is there.
        share: see `read`.

    Raises:
        CheckpointMismatchError: naming the file.
    """
    from trainjobs.checksums import checksums_of, sha256

    place = Path(folder)
    manifests = {
        p.name: Manifest.model_validate_json(p.read_bytes()) for p in sorted(place.iterdir()) if is_manifest(p.name)
    }
    if not manifests:
        return
    for manifest in manifests.values():
        if config_hash and manifest.config_hash != config_hash:
            raise CheckpointMismatchError(
                f"the checkpoint belongs to configuration {manifest.config_hash}, this trial is {config_hash}"
            )
    first = manifests.get(manifest_name(0))
    for rank in range(first.world_size if first else 1):
        if manifest_name(rank) not in manifests:
            raise CheckpointMismatchError(f"{manifest_name(rank)} of the checkpoint is missing")
    entries = [entry for manifest in manifests.values() for entry in manifest.files]
    number, readers = share
    for entry in entries[number::readers]:
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
    scaler: Any = None,
    sampler: Any = None,
) -> Resume:
    """Loads the trial's newest committed checkpoint into the given objects; a fresh start where there is none.

    Call it on every rank before the first epoch. All is loaded to the CPU first and moved by the objects themselves. The
    workers of a node share one download and the comparison with the manifests.

    Raises:
        CheckpointMismatchError: see `read`.
    """
    import ray.train

    here = session.current()
    found = ray.train.get_checkpoint()
    if found is None:
        return Resume()
    context = ray.train.get_context()
    with found.as_directory() as folder:
        resume = read(
            folder,
            model=model,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            scaler=scaler,
            sampler=sampler,
            rank=context.get_world_rank(),
            config_hash=here.config_hash,
            share=(context.get_local_rank(), context.get_local_world_size()),
        )
    here.epoch, here.step, here.metrics = resume.epoch, resume.step, dict(resume.metrics)
    return resume
