"""What must hold after a fault, looked at from outside: the store's files, the cluster's objects, the sweep's own record."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from devcluster.errors import DevClusterError
from tests.e2e.lab import Lab, Sweep


@dataclass
class Row:
    """One line of the table."""

    fault: str
    date: str
    state: str
    attempts: int
    lost: int
    leaked: int
    recovery_seconds: float | None
    gpu_seconds: float
    seconds: float
    problem: str = ""
    """Why the row is not as it must be; "" where it is."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def lost_checkpoints(lab: Lab, sweep: Sweep) -> list[str]:
    """Owed files of the newest receipt that are not in the store as it says, and committed epochs that are gone.

    Without a receipt (the driver died) the operator's inventory is compared with itself: required and verified.
    """
    prefix = lab.prefix(sweep)
    try:
        receipt = lab.document(sweep, "receipt.json")
    except lab.s3.exceptions.NoSuchKey:
        counts = sweep.status.get("checkpoints") or {}
        short = int(counts.get("required", 0)) - int(counts.get("verified", 0))
        return [f"{short} of the inventory"] if short else []
    lost = []
    for item in receipt["owed"]:
        for file in item["files"]:
            key = f"{prefix}{item['checkpoint']}/{file['path']}"
            try:
                data = lab.read(key)
            except lab.s3.exceptions.NoSuchKey:
                lost.append(key)
                continue
            sums = {c["algorithm"]: c["value"] for c in file.get("checksums", [])}
            same = base64.b64encode(hashlib.sha256(data).digest()).decode() == sums.get("SHA256")
            if len(data) != file["size"] or not same:
                lost.append(key)
    return lost


def torn_trials(lab: Lab, sweep: Sweep) -> list[str]:
    """Trials whose newest checkpoint does not hold every epoch once: something was lost or trained twice on top of itself."""
    prefix = lab.prefix(sweep)
    newest: dict[str, list[int]] = {}
    for key in sorted(lab.keys(prefix + "train/")):
        if key.endswith("/progress.json"):
            try:
                trained = json.loads(lab.read(key))["state"]["trained"]
            except ValueError:
                continue  # one that a fault has damaged; whether it was owed, the receipt tells
            newest[key.removeprefix(prefix).split("/")[1]] = [epoch for epoch, _ in trained]
    return [trial for trial, epochs in newest.items() if epochs != list(range(1, len(epochs) + 1))]


def leaked(lab: Lab, name: str, timeout: float = 60) -> list[str]:
    """Pods, RayClusters and holds of a sweep that are still there after it let go, with patience for the last second."""
    until = time.monotonic() + timeout
    while True:
        left = [
            f"{kind}/{item['metadata']['name']}"
            for kind in ("pods", "rayclusters", "trainsweepholds")
            for item in lab.items(kind, name)
        ]
        if not left or time.monotonic() >= until:
            return left
        time.sleep(2)


def remove(lab: Lab, name: str) -> None:
    """Deletes the sweep and waits until all of it is gone."""
    try:
        lab.cluster.kubectl(
            "delete", "trainsweep", name, "--ignore-not-found", "--wait=true", "--timeout=240s", timeout=250
        )
    except DevClusterError:
        lab.cluster.kubectl("annotate", "trainsweep", name, "trainsweep.io/force-release=true", "--overwrite")
        raise
