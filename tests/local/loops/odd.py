"""Loops that do what loops should not, chosen by a parameter; no torch."""

import tempfile
from pathlib import Path

import numpy
import ray.train

import trainjobs
from trainjobs import checkpoint

TRAINSWEEP_BACKEND = "none"


def train_loop(config):
    how = config["how"]
    if how == "plain":
        # Ray's own report, with a file and no manifest, no epoch.
        for value in (0.5, 0.25):
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "weights.bin").write_bytes(b"w" * 10)
                ray.train.report({"loss": value}, checkpoint=ray.train.Checkpoint.from_directory(folder))
        return
    if how == "raises":
        raise RuntimeError("the data is not there")
    if how == "silent":
        return
    start = checkpoint.load()
    for epoch in trainjobs.epochs(start, 2):
        value = {
            "missing": {"val_loss ": 1.0},
            "near": {"Loss": 1.0},
            "nan": {"loss": float("nan")},
            "inf": {"loss": float("-inf")},
            "text": {"loss": "0.3"},
            "array": {"loss": numpy.array([0.1, 0.2])},
        }[how]
        trainjobs.report(value, epoch=epoch, state={})
