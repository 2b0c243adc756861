"""Small builders of specs, classes and render inputs for the tests of this folder."""

from __future__ import annotations

import copy
from typing import Any

from trainsweep.api.resolve import merge, resolve
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.render.rayjob import RenderInput

UID = "0b0e6c1e-8a53-4f4e-9a43-0d2f6f1f5a11"
RUN = "v1-0123456789abcdef"
BASE: dict[str, Any] = {
    "objective": {"metric": "val_loss", "mode": "Minimize"},
    "search": {
        "algorithm": {"random": {"seed": 7}},
        "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1, "log": True}}],
    },
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {
        "entrypoint": "train:loop",
        "image": "registry.example/train:1",
        "workers": {"count": 2, "resources": {"cpu": 1, "memory": "1Gi"}},
    },
    "storage": {"uri": "s3://bucket/team", "region": "eu-west-1"},
}
GPU_TRAINING = {"training": {"workers": {"count": 2, "resources": {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": 1}}}}


def raw(**changes: Any) -> dict[str, Any]:
    """A valid spec with some top-level fields merged in."""
    return merge(copy.deepcopy(BASE), changes)


def klass(**changes: Any) -> TrainSweepClassSpec:
    """A class that allows the base spec's storage."""
    return TrainSweepClassSpec.model_validate(merge({"storage": {"allowedPrefixes": ["s3://bucket"]}}, changes))


def render_input(spec: dict[str, Any], sweep_class: TrainSweepClassSpec | None = None, **changes: Any) -> RenderInput:
    """What render needs, for attempt 1 of team/digits."""
    resolved = resolve(spec, sweep_class)
    fields: dict[str, Any] = {
        "spec": resolved,
        "sweep_class": sweep_class,
        "namespace": "team",
        "name": "digits",
        "uid": UID,
        "run": RUN,
        "attempt": 1,
    }
    return RenderInput(**(fields | changes))
