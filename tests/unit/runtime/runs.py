"""A run in a store, written as a driver would write it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trainsweep.api.workload import Depth, Require
from trainsweep.contract.documents import SweepRef
from trainsweep.contract.owed import RESUMABLE_OUTCOMES, Committed, TrialState, owed_checkpoints
from trainsweep.runtime.store import Store
from trainsweep.runtime.verify import Target

UID = "0b0e6c1e-8a53-4f4e-9a43-0d2f6f1f5a11"
ATTEMPT = "1-0b0e6c1e"
SWEEP = SweepRef(namespace="team-a", name="digits", uid=UID, run="v1-0123456789abcdef")
HASH = "0123456789"


def sha256(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def entry(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "size": len(data), "checksums": [{"algorithm": "SHA256", "value": sha256(data)}]}


def target(require: Require = Require.BEST_TRIAL, depth: Depth = Depth.CHECKSUMS) -> Target:
    return Target(SWEEP, ATTEMPT, "acc", "Maximize", require, depth, expected_trials=3)


@dataclass
class Run:
    store: Store
    put: Callable[[str, bytes], None]
    delete: Callable[[str], None]
    records: list[dict[str, Any]] = field(default_factory=list)
    states: list[TrialState] = field(default_factory=list)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def trial(self, index: int, values: list[float], state: str = "Succeeded", *, manifest: bool = True) -> None:
        """A trial with one committed checkpoint for each value."""
        trial = f"t{index}"
        folder = f"train/{trial}-{HASH}"
        results, committed = [], []
        for step, value in enumerate(values, 1):
            name = f"checkpoint_{step}"
            key = f"{folder}/{name}"
            files = {"model.pt": f"{trial}-{step}-model".encode() * 50, "state/rank0.pt": b"s" * 100}
            self.files[key] = files
            if manifest:
                body = {"configHash": HASH, "step": step, "files": [entry(p, d) for p, d in files.items()]}
                files["trainsweep-manifest.json"] = json.dumps(body).encode()
            for path, data in files.items():
                self.put(f"{key}/{path}", data)
            results.append({"checkpoint_dir_name": name, "metrics": {"acc": value, "epoch": step}})
            committed.append(Committed(key, step, value))
        snapshot = {"checkpoint_results": results, "latest_checkpoint_result": results[-1] if results else None}
        self.put(f"{folder}/checkpoint_manager_snapshot.json", json.dumps(snapshot).encode())
        self.records.append(
            {"index": index, "trial": trial, "state": state, "parameters": {"lr": 0.1 * index}, "configHash": HASH}
        )
        self.put("trials.jsonl", b"".join(json.dumps(r).encode() + b"\n" for r in self.records))
        self.states.append(TrialState(trial, state, tuple(committed)))

    def receipt(self, require: Require = Require.BEST_TRIAL, **changes: Any) -> dict[str, Any]:
        """What an honest driver would claim."""
        outcome = changes.get("outcome", "Completed")
        owed = owed_checkpoints(self.states, require, "Maximize", resumable=outcome in RESUMABLE_OUTCOMES)
        return {
            "sweep": {"namespace": "team-a", "name": "digits", "uid": UID, "run": SWEEP.run},
            "attemptId": ATTEMPT,
            "outcome": outcome,
            "writtenAt": 1.0,
            "metric": "acc",
            "mode": "Maximize",
            "trials": {"expected": 3, "succeeded": len(self.states)},
            "owed": [
                {
                    "trial": o.trial,
                    "step": o.step,
                    "value": o.value,
                    "checkpoint": o.checkpoint,
                    "files": [entry(p, d) for p, d in self.files[o.checkpoint].items()],
                }
                for o in owed
            ],
            **changes,
        }

    def settle(self, receipt: dict[str, Any] | bytes) -> str:
        """Writes a receipt; gives back its digest."""
        data = receipt if isinstance(receipt, bytes) else json.dumps(receipt).encode()
        self.put(f"attempts/{ATTEMPT}/receipt.json", data)
        return hashlib.sha256(data).hexdigest()
