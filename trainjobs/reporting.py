"""Reports of a training loop: averaged over the workers, with a checkpoint that carries its manifest."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainjobs import checkpoint, session
from trainjobs.upload import discard, with_manifest
from trainsweep.contract.snapshot import EPOCH, PARTIAL


def _plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics with tensors and numpy values of one element as Python numbers: Ray refuses tensors."""
    return {str(k): _number(v) for k, v in metrics.items()}


def _number(value: Any) -> Any:
    if not callable(getattr(value, "item", None)):
        return value
    try:
        return value.item()
    except (ValueError, RuntimeError):
        # Words in its place: as the objective they end the trial at once, with them in the message; raised here, they
        # would be tried again as often as a lost node.
        return f"a {type(value).__name__} of shape {tuple(value.shape)}"


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


def _send(
    reported: dict[str, Any],
    *,
    epoch: int,
    metrics: dict[str, Any],
    step: int | None,
    folder: str | Path | None = None,
    background: bool = False,
    **parts: Any,
) -> None:
    """Hands this rank's checkpoint to Ray together with what is reported, and notes both in the session.

    Args:
        reported: what Ray is told, with the epoch.
        epoch: finished epochs, for the checkpoint.
        metrics: for the checkpoint.
        step: optimizer steps so far; None: as many as before.
        folder: files that this rank wrote itself; absent: `parts` are saved.
        background: see `report`.
        parts: see `checkpoint.save`.
    """
    import ray.train
    from ray.train import CheckpointUploadMode

    here, context = session.current(), ray.train.get_context()
    steps = here.step if step is None else step
    place = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="trainsweep-"))
    own: dict[str, Any] = {
        "rank": context.get_world_rank(),
        "world_size": context.get_world_size(),
        "config_hash": here.config_hash,
    }
    options: dict[str, Any] = {"checkpoint_upload_fn": with_manifest(step=epoch, **own)}
    if background:
        options |= {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC, "delete_local_checkpoint_after_upload": True}
    handed = False
    try:
        if folder is None:
            checkpoint.save(place, epoch=epoch, metrics=metrics, step=steps, manifest=False, **own, **parts)
        ray.train.report(reported, checkpoint=ray.train.Checkpoint.from_directory(place), **options)
        handed = background
    finally:
        if not handed:  # a finished upload leaves the files where they are; one in the background still reads them
            discard(place)
    here.saved_at = time.monotonic()
    here.epoch, here.step, here.metrics = epoch, steps, metrics


def report(
    metrics: Mapping[str, Any],
    *,
    epoch: int | None = None,
    weight: float = 1.0,
    checkpoint_dir: str | Path | None = None,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    state: Any = None,
    step: int | None = None,
    background: bool = False,
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
        scaler: see `checkpoint.save`.
        sampler: see `checkpoint.save`.
        state: the loop's own state, any JSON.
        step: optimizer steps so far.
        background: upload while the loop goes on. The report counts only when the upload is complete: Ray lists the
            checkpoint, and the sweep sees the metrics, then. A loop that returns waits for its uploads; one that is
            killed loses the upload in flight. The local disk must hold the checkpoints that wait.

    Raises:
        ValueError: where the ranks report different metrics.
    """
    import ray.train

    here = session.current()
    done = here.epoch + 1 if epoch is None else epoch
    values = _averaged(_plain(metrics), weight, ray.train.get_context().get_world_size())
    _send(
        {**values, EPOCH: done},
        epoch=done,
        metrics=values,
        step=step,
        folder=checkpoint_dir,
        background=background,
        model=model,
        optimizer=optimizer,
        lr_scheduler=lr_scheduler,
        scaler=scaler,
        sampler=sampler,
        state=state,
    )
    here.reports += 1


def safe_point(
    *,
    every_seconds: float = 0.0,
    every: int = 1,
    model: Any = None,
    optimizer: Any = None,
    lr_scheduler: Any = None,
    scaler: Any = None,
    sampler: Any = None,
    state: Any = None,
    step: int | None = None,
) -> bool:
    """A batch boundary at which a long epoch may be interrupted: a checkpoint by time, and one before a stop.

    The checkpoint belongs to the epoch that runs: `checkpoint.load` brings back the finished epochs, and the sampler's
    position inside of the next one (see `ResumableSampler`). It has no metrics of its own and is never the best.
    A collective: every rank calls it equally often.

    Args:
        every_seconds: how old the newest checkpoint may become; 0: only a stop is answered. At least a few seconds.
        every: only each so-many-th call asks the other ranks; 10 or more keeps the cost out of short batches.
        model: see `checkpoint.save`.
        optimizer: see `checkpoint.save`.
        lr_scheduler: see `checkpoint.save`.
        scaler: see `checkpoint.save`.
        sampler: see `checkpoint.save`.
        state: the loop's own state, any JSON; sums of the running epoch belong here.
        step: optimizer steps so far.

    Returns:
        Whether the sweep was asked to stop: the state is saved, the loop must return.
    """
    here = session.current()
    if here.stopped:
        return True
    here.calls += 1
    if here.calls % every:
        return False
    old = every_seconds > 0 and time.monotonic() - here.saved_at >= every_seconds
    due, here.stopped = session.agree(old, session.flag(here))
    if not due and not here.stopped:
        return False
    if hasattr(sampler, "finish_batch"):
        sampler.finish_batch()
    objective = {here.metric: here.worst} if here.metric else {}  # see PARTIAL
    _send(
        {**objective, EPOCH: here.epoch, PARTIAL: True},
        epoch=here.epoch,
        metrics=here.metrics,
        step=step,
        model=model,
        optimizer=optimizer,
        lr_scheduler=lr_scheduler,
        scaler=scaler,
        sampler=sampler,
        state=state,
    )
    return here.stopped


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
