"""Reports of a training loop: averaged over the workers, with a checkpoint that carries its manifest."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainjobs import checkpoint, session
from trainjobs.manifest import write_manifest
from trainsweep.contract.snapshot import EPOCH


def _plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics with zero-dimensional tensors and numpy numbers as Python numbers: Ray refuses tensors."""
    return {str(k): (v.item() if hasattr(v, "item") and callable(v.item) else v) for k, v in metrics.items()}


def average(all_metrics: list[tuple[Mapping[str, Any], float]]) -> dict[str, Any]:
    """The weighted mean of every number over the ranks; what is no number is rank 0's.

    Raises:
        ValueError: where the ranks report different metrics.
    """
    first = all_metrics[0][0]
    for rank, (metrics, _) in enumerate(all_metrics):
        if set(metrics) != set(first):
            raise ValueError(
                f"rank 0 reported {', '.join(sorted(first))}; rank {rank} reported {', '.join(sorted(metrics))}: "
                "every rank must report the same metrics"
            )
    total = sum(weight for _, weight in all_metrics)
    out: dict[str, Any] = {}
    for name, value in first.items():
        numbers = [m[name] for m, _ in all_metrics]
        if total > 0 and all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
            out[name] = sum(n * w for n, (_, w) in zip(numbers, all_metrics, strict=True)) / total
        else:
            out[name] = value
    return out


def _averaged(metrics: dict[str, Any], weight: float, world_size: int) -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if world_size == 1 or torch is None or not torch.distributed.is_initialized():
        return metrics  # without a process group there is nothing to average with: Ray forwards rank 0's
    gathered: list[Any] = [None] * world_size
    torch.distributed.all_gather_object(gathered, (metrics, weight))
    return average(gathered)


def report(
    metrics: Mapping[str, Any],
    *,
    epoch: int | None = None,
    weight: float = 1.0,
    checkpoint_dir: str | Path | None = None,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    sampler: Any = None,
    state: Any = None,
) -> None:
    """Reports the metrics of an epoch together with a checkpoint. Call it on every rank, equally often.

    Ray takes one report in about a second: report epochs, not batches. Either give the parts to save (see
    `trainjobs.checkpoint.save`) or a directory that this rank filled itself with rank-unique file names.

    Args:
        metrics: numbers by name, among them the objective; averaged over the workers.
        epoch: finished epochs, 1-based; absent: one more than at the last report.
        weight: of this rank's numbers in the mean, such as its number of samples.
        checkpoint_dir: a directory with this rank's files; it is removed after the upload.
        model: see `checkpoint.save`.
        optimizer: see `checkpoint.save`.
        lr_scheduler: see `checkpoint.save`.
        sampler: see `checkpoint.save`.
        state: the loop's own state, any JSON.

    Raises:
        ValueError: where the ranks report different metrics.
    """
    import ray.train

    here = session.current()
    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    step = here.epoch + 1 if epoch is None else epoch
    values = _averaged(_plain(metrics), weight, world_size)
    folder = Path(checkpoint_dir) if checkpoint_dir is not None else Path(tempfile.mkdtemp(prefix="trainsweep-"))
    try:
        if checkpoint_dir is not None:
            write_manifest(folder, rank=rank, world_size=world_size, config_hash=here.config_hash, step=step)
        else:
            checkpoint.save(
                folder,
                epoch=step,
                metrics=values,
                model=model,
                optimizer=optimizer,
                lr_scheduler=lr_scheduler,
                sampler=sampler,
                state=state,
                rank=rank,
                world_size=world_size,
                config_hash=here.config_hash,
            )
        ray.train.report({**values, EPOCH: step}, checkpoint=ray.train.Checkpoint.from_directory(folder))
    finally:
        # The upload is synchronous; Ray leaves the local files where they are.
        shutil.rmtree(folder, ignore_errors=True)
    here.epoch, here.metrics, here.reports = step, values, here.reports + 1


def epochs(start: checkpoint.Resume, total: int) -> Iterator[int]:
    """The epochs that are left, 1-based: `start.epoch + 1` to `total`.

    Where none is left (the trial was interrupted after its last checkpoint) the last metrics are reported once more, on
    every rank: Tune would otherwise end the trial without a result, or with an old one.
    """
    if start.epoch >= total:
        import ray.train

        here = session.current()
        ray.train.report({**start.metrics, EPOCH: start.epoch})
        here.reports += 1
        return
    yield from range(start.epoch + 1, total + 1)
