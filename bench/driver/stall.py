"""How long a loop stands still for a checkpoint: `trainjobs.report` against a bare pyarrow upload of the same bytes.

python -m bench.driver.stall ENDPOINT ROOT MIB ROUNDS OUT.json
"""

import json
import sys
import time
from pathlib import Path

import pyarrow.fs
import ray
import ray.train
from ray.train.torch import TorchTrainer


def loop(config: dict) -> None:
    """Both, alternating; times in seconds."""
    import tempfile

    import torch

    import trainjobs
    from trainjobs import checkpoint

    model = torch.nn.Linear(1024, config["mib"] * 256, bias=False)  # 1 MiB for each 256 rows of float32
    times = {"report": [], "bare": [], "save": []}
    for number in range(config["rounds"] + 1):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            checkpoint.save(folder, epoch=number, model=model)
            saved = time.perf_counter() - started
            started = time.perf_counter()
            # As Ray uploads to S3: without pyarrow's threads.
            target = f"{config['root']}/bare/{number}"
            pyarrow.fs.copy_files(folder, target, destination_filesystem=config["fs"], use_threads=False)
            bare = time.perf_counter() - started
        time.sleep(2.5)  # so that the report waits for no poll of Ray's
        started = time.perf_counter()
        trainjobs.report({"loss": 1.0}, model=model)
        report = time.perf_counter() - started
        if number:  # the first round warms both up
            for name, value in (("report", report), ("bare", bare), ("save", saved)):
                times[name].append(value)
    Path(config["out"]).write_text(json.dumps(times))


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
