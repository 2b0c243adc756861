"""Small builders of what users and platform teams write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainsweep.api.resolve import merge

BUCKET, REGION, METRIC = "trainsweep", "us-east-1", "val_loss"


def sweep(name: str, namespace: str = "sweeps", **spec: Any) -> dict[str, Any]:
    """A sweep of two trials with short times; `spec` is merged over it."""
    base: dict[str, Any] = {
        "objective": {"metric": METRIC, "mode": "Minimize"},
        "search": {
            "algorithm": {"random": {"seed": 1}},
            "parameters": [{"name": "lr", "float": {"min": 0.001, "max": 0.1}}],
        },
        "trials": {"count": 2, "maxConcurrent": 2},
        "training": {"entrypoint": "demo:train", "image": "registry.example/train:1"},
        "checkpoints": {"verify": {"timeoutSeconds": 60}},
        "failurePolicy": {"backoff": {"initialSeconds": 0, "maxSeconds": 0}},
        "cleanup": {"holdSeconds": 60, "maxHoldSeconds": 60, "stopGraceSeconds": 2, "deletionGraceSeconds": 120},
    }
    return {
        "apiVersion": "trainsweep.io/v1alpha1",
        "kind": "TrainSweep",
        "metadata": {"name": name, "namespace": namespace},
        "spec": merge(base, spec),
    }


def sweep_class(name: str, endpoint: str, *, default: bool = False, **spec: Any) -> dict[str, Any]:
    """A class that allows the whole bucket; `spec` is merged over it."""
    base: dict[str, Any] = {
        "defaults": {"storage": {"uri": f"s3://{BUCKET}", "region": REGION, "endpointURL": endpoint}},
        "storage": {"allowedPrefixes": [f"s3://{BUCKET}"], "endpoints": [endpoint]},
    }
    metadata: dict[str, Any] = {"name": name}
    if default:
        metadata["annotations"] = {"trainsweep.io/is-default-class": "true"}
    return {
        "apiVersion": "trainsweep.io/v1alpha1",
        "kind": "TrainSweepClass",
        "metadata": metadata,
        "spec": merge(base, spec),
    }


def condition(body: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """A condition of an object, empty where it is not there."""
    found = ((body or {}).get("status") or {}).get("conditions") or []
    return next((dict(c) for c in found if c["type"] == kind), {})


def states(body: Mapping[str, Any]) -> dict[str, str]:
    """`{type: "status/reason"}` of all conditions."""
    found = (body.get("status") or {}).get("conditions") or []
    return {c["type"]: f"{c['status']}/{c['reason']}" for c in found}
