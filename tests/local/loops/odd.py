"""Loops that do what loops should not, chosen by a parameter; no torch."""

import tempfile
from pathlib import Path

import numpy
import ray.train

import trainjobs
from trainjobs import checkpoint, session
from trainjobs.manifest import write_manifest

TRAINSWEEP_BACKEND = "none"


def upload(local, where, skip=()):
    """What Ray's own upload does, by hand."""
    storage = ray.train.get_context().get_storage()
    target = f"{where or storage.experiment_fs_path}"
    storage.storage_filesystem.create_dir(target, recursive=True)
    for file in Path(local.path).iterdir():
        if file.name not in skip:
            with storage.storage_filesystem.open_output_stream(f"{target}/{file.name}") as out:
                out.write(file.read_bytes())
    return ray.train.Checkpoint(target, filesystem=storage.storage_filesystem)


def inside(local, name, skip=()):
    return upload(local, f"{ray.train.get_context().get_storage().experiment_fs_path}/{name}", skip)


UPLOADS = {
    "returns-none": lambda local, name: inside(local, name) and None,
    "elsewhere": lambda local, name: upload(local, f"{tempfile.mkdtemp()}/{name}"),
    "short": lambda local, name: inside(local, name, skip=("b.bin",)),
}
"""B3: upload functions of the user's own that do what they should not."""


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
    if how in UPLOADS:
        folder = Path(tempfile.mkdtemp())
        for name in ("a.bin", "b.bin"):
            (folder / name).write_bytes(b"w" * 10)
        write_manifest(folder, rank=0, world_size=1, config_hash=session.current().config_hash, step=1)
        local = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"loss": 0.1, "epoch": 1}, checkpoint=local, checkpoint_upload_fn=UPLOADS[how])
        return
    start = checkpoint.load()
    for epoch in trainjobs.epochs(start, 2):
        value = {
            "near": {"Loss": 1.0},
            "nan": {"loss": float("nan")},
            "array": {"loss": numpy.array([0.1, 0.2])},
        }[how]
        trainjobs.report(value, epoch=epoch, state={})
