"""How long a loop stands still for a checkpoint: `trainjobs.report` against a bare pyarrow upload of the same bytes.

python -m bench.driver.stall ENDPOINT ROOT MIB ROUNDS OUT.json
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.fs
import ray
import ray.train
from ray.train.torch import TorchTrainer

WARM_UP = 2
"""Rounds that are not counted."""


def loop(config: dict) -> None:
    """Both, alternating; times in seconds. Serializing the state, which a raw loop pays too, is in neither."""
    import torch

    import trainjobs

    def bare(folder: str, number: int) -> None:
        # As Ray uploads to S3: without pyarrow's threads.
        target = f"{config['root']}/bare/{number}"
        pyarrow.fs.copy_files(folder, target, destination_filesystem=config["fs"], use_threads=False)

    def retain(number: int) -> None:
        """One of each side is kept in the store, as Ray does: both write where something was removed before."""
        if number:
            config["fs"].delete_dir(f"{config['root']}/bare/{number - 1}")

    def report(folder: str, number: int) -> None:
        trainjobs.report({"loss": 1.0}, epoch=number + 1, checkpoint_dir=folder)

    model = torch.nn.Linear(1024, config["mib"] * 256, bias=False)  # 1 MiB for each 256 rows of float32
    sides = {"report": report, "bare": bare}
    times = {name: [] for name in sides}
    for number in range(config["rounds"] + WARM_UP):
        for name in sorted(sides, reverse=number % 2 == 0):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                torch.save(model.state_dict(), f"{folder}/state.pt")
                os.sync()  # what the disk still has to do is neither's
                time.sleep(2.5)  # so that a report waits for no poll of Ray's
                started = time.perf_counter()
                sides[name](folder, number)
                times[name].append(time.perf_counter() - started)
        retain(number)
    warm = {name: taken[WARM_UP:] for name, taken in times.items()}
    Path(config["out"]).write_text(json.dumps(warm))


def main(endpoint: str, root: str, mib: str, rounds: str, out: str) -> None:
    """One run of Ray Train, one worker."""
    ray.init("local", num_cpus=2, include_dashboard=False)
    fs = pyarrow.fs.S3FileSystem(
        region="us-east-1",
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        check_directory_existence_before_creation=True,
    )
    TorchTrainer(
        loop,
        train_loop_config={"fs": fs, "root": root, "mib": int(mib), "rounds": int(rounds), "out": out},
        scaling_config=ray.train.ScalingConfig(num_workers=1),
        run_config=ray.train.RunConfig(
            name="stall",
            storage_path=f"{root}/train",
            storage_filesystem=fs,
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=1),
        ),
    ).fit()


if __name__ == "__main__":
    main(*sys.argv[1:])
