"""The raw side: Tune over Ray Train V2 by Ray's documented pattern, as a program of its own.

python -m bench.driver.raw WORKLOAD.json
"""

import json
import sys
from pathlib import Path

import pyarrow.fs
import ray
import ray.train
import ray.tune
from ray.tune.integration.ray_train import TuneReportCallback

from bench.driver import loops


def trial(config: dict, work: dict, fs: pyarrow.fs.FileSystem) -> None:
    """A function trainable that builds a trainer of its own."""
    name = ray.tune.get_context().get_trial_id()
    scaling = ray.train.ScalingConfig(num_workers=work["workers"], resources_per_worker={"CPU": 1})
    run = ray.train.RunConfig(
        name=f"train-{name}",
        storage_path=f"{work['root']}/train",
        storage_filesystem=fs,
        callbacks=[TuneReportCallback()],
        checkpoint_config=ray.train.CheckpointConfig(
            num_to_keep=2, checkpoint_score_attribute=work["metric"], checkpoint_score_order=work["mode"]
        ),
        failure_config=ray.train.FailureConfig(max_failures=3),
    )
    options = {"train_loop_config": {**work["config"], **config}, "scaling_config": scaling, "run_config": run}
    loop = getattr(loops, work["loop"])
    if work["torch"]:
        from ray.train.torch import TorchTrainer

        TorchTrainer(loop, **options).fit()
    else:
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

        DataParallelTrainer(loop, **options).fit()


def main(work: dict) -> None:
    """One sweep."""
    ray.init("local", num_cpus=work["cpus"], resources={"trial_slot": work["concurrent"]}, include_dashboard=True)
    fs = pyarrow.fs.S3FileSystem(
        region="us-east-1",
        endpoint_override=work["endpoint"].removeprefix("http://"),
        scheme="http",
        check_directory_existence_before_creation=True,
    )
    trainable = ray.tune.with_parameters(trial, work=work, fs=fs)
    tuner = ray.tune.Tuner(
        ray.tune.with_resources(trainable, ray.tune.PlacementGroupFactory([{"trial_slot": 1}])),
        param_space={name: ray.tune.grid_search(values) for name, values in work["grid"].items()},
        tune_config=ray.tune.TuneConfig(
            metric=work["metric"], mode=work["mode"], max_concurrent_trials=work["concurrent"]
        ),
        run_config=ray.tune.RunConfig(
            name="tune",
            storage_path=work["root"],
            storage_filesystem=fs,
            failure_config=ray.tune.FailureConfig(max_failures=2),
        ),
    )
    grid = tuner.fit()
    best = grid.get_best_result(scope="all")
    print("finished", len(grid), "errors", grid.num_errors, "best", best.metrics[work["metric"]])
    if grid.num_errors or len(grid) != work["trials"]:
        sys.exit(1)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
