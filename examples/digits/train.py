"""A small convolutional network on scikit-learn's digits: 1,797 real images of 8 x 8 pixels that ship with the package.

Each worker trains on its own part; the global batch is fixed, so the number of workers does not change the training.
"""

from __future__ import annotations

import numpy as np
import ray.train
import ray.train.torch
import torch
from sklearn.datasets import load_digits  # at the top: an image without it fails at once, not in each trial
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import trainjobs
from trainjobs import checkpoint


def splits(count: int = 1797) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of training, validation and test images: disjoint, the same on every machine."""
    order = np.random.RandomState(20260101).permutation(count)
    return order[:1197], order[1197:1497], order[1497:]


def images(indices: np.ndarray) -> TensorDataset:
    """Images as (1, 8, 8) floats from 0 to 1, and their labels."""
    data = load_digits()
    pixels = torch.tensor(data.images[indices], dtype=torch.float32).unsqueeze(1) / 16.0
    return TensorDataset(pixels, torch.tensor(data.target[indices], dtype=torch.long))


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(2 * width * 16, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """Share of the images that the model names right."""
    model.eval()
    pixels, labels = data.tensors
    return (model(pixels.to(device)).argmax(1).cpu() == labels).float().mean().item()


def train_loop(config: dict) -> None:
    """What every worker runs. `config` holds the sweep's constants and this trial's parameters."""
    torch.set_num_threads(1)  # several workers share a small machine
    torch.manual_seed(config["seed"])
    context, device = ray.train.get_context(), trainjobs.device()
    rank, workers = context.get_world_rank(), context.get_world_size()
    batch, rest = divmod(config["batch"], workers)
    if rest:
        raise ValueError(f"a batch of {config['batch']} cannot be divided by {workers} workers")

    train_indices, val_indices, _ = splits()
    train, validation = images(train_indices), images(val_indices[rank::workers])
    sampler = DistributedSampler(train, num_replicas=workers, rank=rank, seed=config["seed"], drop_last=True)
    loader = DataLoader(train, batch_size=batch, sampler=sampler, drop_last=True)

    shape = {"width": config["width"], "dropout": config["dropout"]}
    model = ray.train.torch.prepare_model(Net(**shape).to(device), move_to_device=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=config["epochs"])
    parts = {"model": model, "optimizer": optimizer, "lr_scheduler": schedule, "sampler": sampler}

    start = checkpoint.load(**parts)
    for epoch in trainjobs.epochs(start, config["epochs"]):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(pixels.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        schedule.step()
        # Averaged over the workers by their number of images; saved by everyone, under names that do not clash.
        metrics = {"val_accuracy": accuracy(model, validation, device), "train_loss": total / len(loader)}
        trainjobs.report(metrics, epoch=epoch, weight=len(validation), state=shape, **parts)
        if trainjobs.stop_requested():
            return
