"""Small builders: a sweep, a run in a directory, checkpoints in it as Train would leave them."""

import json
from pathlib import Path

from trainjobs.filestore import FileStore
from trainjobs.manifest import write_manifest
from trainjobs.records import Records
from trainjobs.sweep import Sweep, parse
from trainsweep.contract import layout
from trainsweep.contract.layout import parse_uri

UID = "0a1b2c3d-0000-4000-8000-000000000001"
RUN = "v1-0123456789abcdef"


def sweep(*, uri="s3://bucket/x", attempt=1, uid=UID, **changes) -> Sweep:
    """A sweep of four trials; `changes` are top-level fields of the spec."""
    spec = {
        "objective": {"metric": "loss", "mode": "Minimize"},
        "search": {
            "algorithm": {"random": {"seed": 1}},
            "parameters": [{"name": "x", "float": {"min": 0, "max": 1}}],
        },
        "trials": {"count": 4},
        "training": {"entrypoint": "train:train_loop"},
        **changes,
    }
    return parse(
        json.dumps(
            {
                "sweep": {"namespace": "default", "name": "demo", "uid": uid, "run": RUN},
                "attempt": attempt,
                "attemptId": layout.attempt_id(attempt, uid),
                "store": {"uri": uri},
                "spec": spec,
            }
        ).encode()
    )


class Place:
    """A run in a directory."""

    def __init__(self, root: Path, **changes):
        self.root = root
        self.store = FileStore(parse_uri(f"file://{root}"))
        self.sweep = sweep(uri=f"file://{root}", **changes)
        self.records = Records(self.store, self.sweep)

    def trial(self, index: int, values, state="Succeeded", manifest=True, files=None):
        """A trial whose loop reported these values, one an epoch, each with a checkpoint."""
        record = self.records.propose(index, {"x": index / 10})
        run = f"train/{record.trial}-{record.config_hash}"
        results = []
        for epoch, value in enumerate(values, 1):
            name = f"checkpoint_{epoch}"
            folder = self.root / run / name
            folder.mkdir(parents=True)
            for file, data in (files or {"state.bin": f"{index}/{epoch}".encode()}).items():
                (folder / file).write_bytes(data)
            if manifest:
                write_manifest(folder, rank=0, world_size=1, config_hash=record.config_hash, step=epoch)
            results.append({"version": 0, "checkpoint_dir_name": name, "metrics": {"epoch": epoch, "loss": value}})
            if value is not None:
                self.records.report(index, epoch, value)
        if results:
            snapshot = {
                "ray_version": "2.58.0",
                "checkpoint_results": sorted(results, key=lambda r: -(r["metrics"]["loss"] or 0)),
                "checkpoint_report_indices": [
                    r["metrics"]["epoch"] - 1 for r in sorted(results, key=lambda r: -(r["metrics"]["loss"] or 0))
                ],
                "latest_checkpoint_result": results[-1],
                "pending_training_results": [],
                "pending_validation_specs": [],
                "current_report_index": len(results),
            }
            (self.root / run / layout.SNAPSHOT).write_text(json.dumps(snapshot))
        self.records.update(index, state=state)
        return run
