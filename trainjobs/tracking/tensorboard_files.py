"""TensorBoard: event files for each trial, written here and copied under `tensorboard/` of the run."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from trainjobs.store import Store
from trainjobs.sweep import Sweep
from trainsweep.contract.documents import TrialRecord

FOLDER = "tensorboard"
COPY_SECONDS = 30.0


class TensorBoardFiles:
    """See Tracker."""

    name = "tensorboard"

    def __init__(self, sweep: Sweep, store: Store) -> None:
        import tensorboardX

        self._make, self._store, self._metric = tensorboardX.SummaryWriter, store, sweep.metric
        self._attempt = sweep.file.attempt_id
        self._root = Path(tempfile.mkdtemp(prefix="trainsweep-tensorboard-"))
        self._writers: dict[int, Any] = {}
        self._copied: dict[Path, int] = {}
        self._last = time.monotonic()

    def begin(self, trial: TrialRecord) -> None:
        """See Tracker."""
        if trial.index not in self._writers:
            # The attempt is in the name: a later one adds a file, TensorBoard reads them as one.
            self._writers[trial.index] = self._make(
                str(self._root / trial.trial), filename_suffix=f".{self._attempt}", flush_secs=3600
            )

    def report(self, trial: TrialRecord, metrics: dict[str, float]) -> None:
        """See Tracker."""
        self.begin(trial)
        for key, value in metrics.items():
            self._writers[trial.index].add_scalar(key, value, trial.step)
        if time.monotonic() - self._last > COPY_SECONDS:
            self._copy()

    def end(self, trial: TrialRecord) -> None:
        """See Tracker: with the parameters, for TensorBoard's own view of them."""
        writer = self._writers.pop(trial.index, None)
        if writer is None:
            return
        if trial.best_value is not None:
            values = {k: v if isinstance(v, (bool, int, float, str)) else str(v) for k, v in trial.parameters.items()}
            writer.add_hparams(values, {f"best/{self._metric}": trial.best_value}, name="best")
        writer.close()
        self._copy()

    def _copy(self) -> None:
        self._last = time.monotonic()
        for writer in self._writers.values():
            writer.flush()
        for file in sorted(self._root.rglob("events.*")):
            size = file.stat().st_size
            if self._copied.get(file) != size:
                self._store.put(f"{FOLDER}/{file.relative_to(self._root).as_posix()}", file.read_bytes())
                self._copied[file] = size

    def close(self) -> None:
        """See Tracker."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        self._copy()
        shutil.rmtree(self._root, ignore_errors=True)
