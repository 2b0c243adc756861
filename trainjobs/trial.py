"""One trial: a Tune function trainable that builds a trainer of its own, as Ray 2.58 wants it.

Everything Tune hands in stands under one key; the loop sees only its constants and parameters.
"""

from __future__ import annotations

import difflib
import logging
import math
import os
import sys
from dataclasses import dataclass
from typing import Any

import ray
import ray.train
import ray.tune
from ray.tune.integration.ray_train import TuneReportCallback

from trainjobs import board
from trainjobs.loop import find_datasets, run_worker
from trainjobs.source import Archive, ensure
from trainsweep.contract import layout
from trainsweep.contract.snapshot import EPOCH, PARTIAL

logger = logging.getLogger(__name__)

KEY = "__trainsweep__"


@dataclass(frozen=True)
class TrialSetup:
    """What is equal for all trials of an attempt."""

    entrypoint: str
    archive: Archive | None
    """The training code where it comes from S3."""
    backend: str
    """`torch` or `none`."""
    constants: dict[str, Any]
    metric: str
    mode: str
    workers: int
    fewest: int
    """Fewer than `workers` where the trial is elastic."""
    cpus: int
    gpus: int
    worker_restarts: int
    keep: int
    root: str
    filesystem: Any
    attempt_id: str
    needs_epoch: bool
    """Whether something is decided by `epoch`: then a report without it is an error."""
    datasets: bool = False
    """Whether the entrypoint's module makes Ray Data sets."""

    @property
    def num_workers(self) -> int | tuple[int, int]:
        """As Train takes it: a pair where the trial is elastic."""
        return self.workers if self.fewest == self.workers else (self.fewest, self.workers)


class ReportError(ValueError):
    """A report that cannot be used. A retry would only repeat it."""


def _name(text: str) -> str:
    return repr(text) if text != text.strip() else text


def _hint(metric: str, metrics: dict[str, Any]) -> str:
    """What was likely meant."""
    folded = {str(name).strip().lower(): str(name) for name in metrics}
    near = difflib.get_close_matches(metric.lower(), folded, n=1, cutoff=0.7)
    if near:
        return f" (is {_name(folded[near[0]])} meant?)"
    return " (metrics of Ray's asynchronous validation never reach the search: report it from the loop)"


def check_report(metrics: dict[str, Any], metric: str, needs_epoch: bool, count: int) -> dict[str, Any]:
    """The metrics as Tune gets them, always with an `epoch`.

    Args:
        metrics: as rank 0 reported them.
        metric: the objective.
        needs_epoch: see TrialSetup.
        count: reports of this trial so far, this one included.

    Raises:
        ReportError: naming what was reported and what is expected.
    """
    reported = ", ".join(map(_name, sorted(map(str, metrics)))) or "nothing"
    if metric not in metrics:
        raise ReportError(f"reported: {reported}; expected: {metric}{_hint(metric, metrics)}")
    value = metrics[metric]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ReportError(f"reported: {metric} = {value!r}; expected: a finite number")
    epoch = metrics.get(EPOCH)
    if epoch is None and not needs_epoch:
        return {**metrics, EPOCH: count}
    if isinstance(epoch, bool) or not isinstance(epoch, (int, float)) or epoch != int(epoch) or epoch < 0:
        raise ReportError(f"reported: {reported}; expected: {EPOCH}, the number of finished epochs, a whole number")
    return {**metrics, EPOCH: int(epoch)}


class ReportCallback(TuneReportCallback):
    """Forwards a committed report to Tune after a look at it: Tune would end the whole sweep over a missing metric."""

    def __init__(self, setup: TrialSetup, index: int) -> None:
        super().__init__()
        self._setup, self._index, self._count = setup, index, 0

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        """See Ray's UserCallback; runs in Train's controller once the checkpoint is committed."""
        if metrics[0].get(PARTIAL):
            return  # committed for a resume; there is no result to tell
        self._count += 1
        try:
            checked = check_report(metrics[0], self._setup.metric, self._setup.needs_epoch, self._count)
        except ReportError as error:
            ray.get(board.find().note.remote(self._index, board.FAILED, str(error)))
            raise
        super().after_report(run_context, [checked, *metrics[1:]], checkpoint)


def _trainer(setup: TrialSetup, identity: dict[str, Any], parameters: dict[str, Any]) -> Any:
    scaling = ray.train.ScalingConfig(
        num_workers=setup.num_workers,
        use_gpu=setup.gpus > 0,
        resources_per_worker={"CPU": setup.cpus, **({"GPU": setup.gpus} if setup.gpus else {})},
    )
    run = ray.train.RunConfig(
        name=layout.train_run(identity["trial"], identity["configHash"]),
        storage_path=f"{setup.root}/{layout.TRAIN}",
        storage_filesystem=setup.filesystem,
        callbacks=[ReportCallback(setup, identity["index"])],
        checkpoint_config=ray.train.CheckpointConfig(
            num_to_keep=setup.keep,
            checkpoint_score_attribute=setup.metric,
            checkpoint_score_order="max" if setup.mode == "Maximize" else "min",
        ),
        # All three budgets are finite: two of them are unlimited by default.
        failure_config=ray.train.FailureConfig(
            max_failures=setup.worker_restarts,
            controller_failure_limit=setup.worker_restarts,
            max_preemption_failures=setup.worker_restarts,
        ),
    )
    config = {
        "trial": identity["trial"],
        "configHash": identity["configHash"],
        "entrypoint": setup.entrypoint,
        "archive": setup.archive,
        "metric": setup.metric,
        "worst": -sys.float_info.max if setup.mode == "Maximize" else sys.float_info.max,
        "index": identity["index"],
        "attempt": setup.attempt_id,
        "filesystem": setup.filesystem,
        "root": setup.root,
        "loop": {**setup.constants, **parameters},
    }
    ensure(setup.archive)
    # The user's module is not imported for nothing: torch and its friends are 200 MB in every trial's process on the head.
    make = find_datasets(setup.entrypoint) if setup.datasets else None
    datasets = make(dict(config["loop"])) if make is not None else None
    common: dict[str, Any] = {
        "datasets": datasets,
        "train_loop_config": config,
        "scaling_config": scaling,
        "run_config": run,
    }
    if setup.backend == "torch":
        from ray.train.torch import TorchTrainer

        from trainjobs.torchbackend import ProbingTorchConfig

        return TorchTrainer(run_worker, torch_config=ProbingTorchConfig(), **common)
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    return DataParallelTrainer(run_worker, **common)


def run_trial(config: dict[str, Any], setup: TrialSetup) -> None:
    """Trains one trial to its end; Tune runs this in an actor on the head, where it holds one slot."""
    identity, parameters = config[KEY], config["parameters"]
    index = identity["index"]
    # Train's controller hands over one report a poll: its default of 2 s would be the shortest epoch.
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "1")
    # It watches for drains by Ray, which nothing on Kubernetes issues: one process and 100 MiB less for each trial.
    os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")
    os.environ.setdefault("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "600")
    here = board.find()
    try:
        trainer = _trainer(setup, identity, parameters)
        ray.get(here.note.remote(index, board.RUN, trainer.train_run_context.run_id))
        result = trainer.fit()
    except Exception:
        if board.FAILED in ray.get(here.notes.remote(index)):
            # Returned, not raised: Tune's retries would only repeat it. The driver reads the note.
            logger.warning("%s failed for good", identity["trial"])
            return
        raise
    if result.return_value == board.STOPPED:
        ray.get(here.note.remote(index, board.STOPPED, "the loop ended on the stop flag"))
