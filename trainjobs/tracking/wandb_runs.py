"""Weights & Biases: one run for each trial under an id that stays, so that a later attempt continues it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from trainjobs.store import Store
from trainjobs.sweep import Sweep
from trainsweep.contract.documents import TrialRecord
from trainsweep.contract.snapshot import EPOCH

FOLDER = "wandb"


class WandbRuns:
    """See Tracker."""

    name = "wandb"

    def __init__(self, sweep: Sweep, store: Store) -> None:
        import wandb

        asked = sweep.spec.tracking.wandb if sweep.spec.tracking is not None else None
        if asked is None:
            raise ValueError("the sweep has no tracking.wandb")
        self._wandb, self._asked, self._sweep, self._store = wandb, asked, sweep, store
        self._root = Path(tempfile.mkdtemp(prefix="trainsweep-wandb-"))
        self._runs: dict[int, Any] = {}
        self._copied: dict[Path, int] = {}

    def begin(self, trial: TrialRecord) -> None:
        """See Tracker."""
        if trial.index in self._runs:
            return
        ref = self._sweep.file.sweep
        run = self._wandb.init(
            project=self._asked.project,
            entity=self._asked.entity or None,
            id=f"{ref.run}-{trial.trial}",
            name=f"{ref.name}-{trial.trial}",
            group=f"{ref.name}-{ref.run}",
            config=dict(trial.parameters),
            mode="offline" if self._asked.offline else "online",
            dir=str(self._root),
            reinit="create_new",
            resume=None if self._asked.offline else "allow",
            settings=self._wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, init_timeout=60, x_disable_stats=True
            ),
        )
        run.define_metric(EPOCH)
        run.define_metric("*", step_metric=EPOCH)
        self._runs[trial.index] = run

    def report(self, trial: TrialRecord, metrics: dict[str, float]) -> None:
        """See Tracker."""
        self.begin(trial)
        self._runs[trial.index].log({**metrics, EPOCH: trial.step})

    def end(self, trial: TrialRecord) -> None:
        """See Tracker."""
        run = self._runs.pop(trial.index, None)
        if run is None:
            return
        run.summary["trainsweep_state"] = trial.state
        if trial.best_value is not None:
            run.summary[f"best_{self._sweep.metric}"] = trial.best_value
        if trial.error:
            run.summary["trainsweep_error"] = trial.error
        run.finish(exit_code=1 if trial.state == "Failed" else 0)
        self._keep()

    def _keep(self) -> None:
        """Copies offline runs into the run's storage: this machine may be gone before anybody can sync them."""
        if not self._asked.offline:
            return
        for file in sorted(self._root.glob("wandb/offline-run-*/run-*.wandb")):
            size = file.stat().st_size
            if self._copied.get(file) != size:
                self._store.put(f"{FOLDER}/{file.parent.name}/{file.name}", file.read_bytes())
                self._copied[file] = size

    def close(self) -> None:
        """See Tracker."""
        for run in self._runs.values():
            run.finish(exit_code=255)
        self._runs.clear()
        # W&B's own process writes a finished run's file a little after `finish` returns; this waits for it.
        self._wandb.teardown()
        self._keep()
        shutil.rmtree(self._root, ignore_errors=True)
