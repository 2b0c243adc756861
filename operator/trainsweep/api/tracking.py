"""`spec.tracking`: where trials are shown besides the run's own report."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from trainsweep.api.base import ApiModel, Rule


class MLflow(ApiModel):
    """One MLflow run for each trial."""

    uri: str = Field(
        min_length=1,
        max_length=1024,
        pattern=r"^\S+$",
        description="MLflow tracking URI, such as http://mlflow.mlops:5000. Credentials belong into training.env.",
    )
    experiment: str = Field(
        default="", max_length=256, description="Name of the experiment; absent: namespace and name of the sweep."
    )


class TensorBoard(ApiModel):
    """Event files for each trial under `tensorboard/` in the run's storage."""


class Wandb(ApiModel):
    """One W&B run for each trial, grouped by the sweep's run. WANDB_API_KEY belongs into training.env."""

    project: str = Field(
        min_length=1, max_length=128, pattern=r"^[^\s/\\#?%:]+$", description="Name of the W&B project."
    )
    entity: str = Field(default="", max_length=128, description="W&B team or user; absent: the key's own.")
    offline: bool = Field(
        default=False, description="Send nothing: put the runs under wandb/ in the storage, for `wandb sync` later."
    )


class Tracking(ApiModel):
    """Trackers that follow the trials. One that does not answer never delays or fails a trial."""

    mlflow: MLflow | None = Field(default=None, description="One MLflow run for each trial.")
    tensorboard: TensorBoard | None = Field(default=None, description="Event files in the run's storage.")
    wandb: Wandb | None = Field(default=None, description="One W&B run for each trial.")

    rules: ClassVar = (
        Rule(
            "has(self.mlflow) || has(self.tensorboard) || has(self.wandb)",
            "set mlflow, tensorboard or wandb, or remove tracking",
        ),
    )
