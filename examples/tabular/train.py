"""A small network on scikit-learn's breast cancer table: 569 real cases of 30 numbers, fed by Ray Data.

The table is one Ray Data set for each trial; every worker reads its own shard of it, dealt out anew in each epoch.
"""

from __future__ import annotations

import numpy as np
import pyarrow
import ray.data
import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import trainjobs
from trainjobs import checkpoint

FEATURES = tuple(f"f{i:02}" for i in range(30))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Standardised features and labels, in an order that is the same on every machine."""
    data = load_breast_cancer()
    order = np.random.RandomState(7).permutation(len(data.target))
    features = data.data[order].astype(np.float32)
    features = (features - features[:400].mean(0)) / features[:400].std(0)
    return features, data.target[order].astype(np.float32)


def make_datasets(config: dict) -> dict:
    """Ray Data sets by name. Made of blocks in memory, without transforms: nothing here needs CPUs beside the workers'."""
    features, labels = arrays()
    columns = {name: features[:400, i] for i, name in enumerate(FEATURES)} | {"label": labels[:400]}
    table = pyarrow.table(columns)
    blocks = [table.slice(start, 50) for start in range(0, 400, 50)]  # a whole number of them for each worker
    return {"train": ray.data.from_arrow(blocks)}


TRAINSWEEP_DATASETS = make_datasets


def train_loop(config: dict) -> None:
    """What every worker runs."""
    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    workers, device = ray.train.get_context().get_world_size(), trainjobs.device()
    model = nn.Sequential(nn.Linear(30, config["width"]), nn.ReLU(), nn.Linear(config["width"], 1)).to(device)
    model = ray.train.torch.prepare_model(model, move_to_device=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=config["decay"])
    shard = ray.train.get_dataset_shard("train")
    features, labels = arrays()
    held_out = torch.tensor(features[400:], device=device), torch.tensor(labels[400:], device=device)

    start = checkpoint.load(model=model, optimizer=optimizer)
    for epoch in trainjobs.epochs(start, config["epochs"]):
        model.train()
        # Equal shards: `prepare`d models meet in every step, so no worker may have a batch more than the others.
        for batch in shard.iter_torch_batches(batch_size=config["batch"] // workers, drop_last=True):
            optimizer.zero_grad()
            rows = torch.stack([batch[name] for name in FEATURES], dim=1).to(device)
            loss = nn.functional.binary_cross_entropy_with_logits(model(rows).squeeze(1), batch["label"].to(device))
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            scores = model(held_out[0]).squeeze(1)
            val_loss = nn.functional.binary_cross_entropy_with_logits(scores, held_out[1]).item()
            accuracy = ((scores > 0) == held_out[1].bool()).float().mean().item()
        metrics = {"val_loss": val_loss, "val_accuracy": accuracy}
        trainjobs.report(metrics, epoch=epoch, model=model, optimizer=optimizer)
        if trainjobs.stop_requested():
            return
