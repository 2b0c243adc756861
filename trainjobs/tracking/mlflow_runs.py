"""MLflow: one run for each trial, found again by its tags, so that a later attempt continues it."""

from __future__ import annotations

import os
import re
from typing import Any

from trainjobs.sweep import Sweep
from trainsweep.contract.documents import TrialRecord

RUN, TRIAL = "trainsweep.run", "trainsweep.trial"
_REFUSED = re.compile(r"[^\w\-. :/]")


def name_of(text: str) -> str:
    """A name that MLflow takes: it refuses brackets, for one."""
    return _REFUSED.sub("_", text)[:250]


class MLflowRuns:
    """See Tracker."""

    name = "mlflow"

    def __init__(self, sweep: Sweep) -> None:
        asked = sweep.spec.tracking.mlflow if sweep.spec.tracking is not None else None
        if asked is None:
            raise ValueError("the sweep has no tracking.mlflow")
        # Its own patience is minutes a call; the next report comes sooner.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        if asked.uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # refused since 3.13 unless it is meant
        from mlflow.tracking import MlflowClient

        self._sweep, ref = sweep, sweep.file.sweep
        self._client: Any = MlflowClient(tracking_uri=asked.uri)
        experiment = asked.experiment or f"{ref.namespace}/{ref.name}"
        found = self._client.get_experiment_by_name(experiment)
        self._experiment: str = found.experiment_id if found is not None else self._client.create_experiment(experiment)
        self._runs: dict[int, str] = {}

    def begin(self, trial: TrialRecord) -> None:
        """See Tracker."""
        run = self._sweep.file.sweep.run
        asked = f"tags.`{RUN}` = '{run}' and tags.`{TRIAL}` = '{trial.trial}'"
        known = self._client.search_runs([self._experiment], asked, max_results=1)
        if known:
            self._runs[trial.index] = known[0].info.run_id
            self._client.update_run(known[0].info.run_id, status="RUNNING")
            return
        tags = {RUN: run, TRIAL: trial.trial, "trainsweep.sweep": self._sweep.file.sweep.name}
        made = self._client.create_run(self._experiment, tags=tags, run_name=trial.trial)
        self._runs[trial.index] = made.info.run_id
        for key, value in trial.parameters.items():
            self._client.log_param(made.info.run_id, name_of(key), str(value)[:5000])

    def report(self, trial: TrialRecord, metrics: dict[str, float]) -> None:
        """See Tracker."""
        if trial.index not in self._runs:
            self.begin(trial)
        for key, value in metrics.items():
            self._client.log_metric(self._runs[trial.index], name_of(key), value, step=trial.step)

    def end(self, trial: TrialRecord) -> None:
        """See Tracker."""
        run = self._runs.pop(trial.index, None)
        if run is None:
            return
        self._client.set_tag(run, "trainsweep.state", trial.state)
        if trial.error:
            self._client.set_tag(run, "trainsweep.error", trial.error)
        self._client.set_terminated(run, "FAILED" if trial.state == "Failed" else "FINISHED")

    def close(self) -> None:
        """See Tracker."""
        for run in self._runs.values():
            self._client.set_terminated(run, "KILLED")
        self._runs.clear()
