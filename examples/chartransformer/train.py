"""A character-level transformer on the text of Python's own standard library, sharded over the workers with FSDP2.

Each worker holds a part of every layer. Checkpoints are written in shards and load at any number of workers; long epochs
are interrupted at safe points, and go on at the sample where they were.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path

import ray.train
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset

import trainjobs
from trainjobs import checkpoint

TRAIN_FILES = ("argparse", "ast", "dataclasses", "datetime", "doctest", "inspect", "pathlib", "tarfile", "typing")
HELD_OUT = ("shutil", "zipfile")
SYMBOLS = 97
"""ASCII from the space on, the line feed, and one for all the rest."""


def encode(text: str) -> torch.Tensor:
    """Characters as numbers below SYMBOLS."""
    codes = torch.tensor(list(text.encode("ascii", "replace")), dtype=torch.long)
    return torch.where(codes == 10, 95, torch.where((codes >= 32) & (codes < 127), codes - 32, 96))


def text_of(modules: tuple[str, ...]) -> torch.Tensor:
    """The source text of modules or packages of the standard library."""
    base = Path(sysconfig.get_path("stdlib"))
    files: list[Path] = []
    for name in modules:
        files += [base / f"{name}.py"] if (base / f"{name}.py").exists() else sorted((base / name).glob("*.py"))
    if not files:
        raise FileNotFoundError(f"this Python brings no source of {', '.join(modules)}")
    return encode("\n".join(f.read_text(encoding="utf-8", errors="replace") for f in files))


class Windows(Dataset):
    """Every so-many-th window of a text: inputs and the characters that follow them."""

    def __init__(self, text: torch.Tensor, length: int, count: int):
        self.text, self.length = text, length
        self.starts = torch.linspace(0, len(text) - length - 2, count).long()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = int(self.starts[index])
        piece = self.text[start : start + self.length + 1]
        return piece[:-1], piece[1:]


class Block(nn.Module):
    """Attention to what came before, and two linear layers."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    """A small decoder."""

    def __init__(self, width: int, layers: int, length: int):
        super().__init__()
        self.symbols, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads=4) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, SYMBOLS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.symbols(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor], device: torch.device) -> torch.Tensor:
    """Mean cross entropy of the next character, in nats."""
    x, y = (part.to(device) for part in batch)
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train_loop(config: dict) -> None:
    """What every worker runs."""
    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    context, device = ray.train.get_context(), trainjobs.device()
    workers, rank = context.get_world_size(), context.get_world_rank()
    local, rest = divmod(config["batch"], workers)
    if rest:
        raise ValueError(f"a batch of {config['batch']} cannot be divided by {workers} workers")

    train = Windows(text_of(TRAIN_FILES), config["length"], config["windows"])
    held_out = Windows(text_of(HELD_OUT), config["length"], 64)
    sampler = trainjobs.ResumableSampler(train, seed=config["seed"])
    loader = DataLoader(train, batch_size=local, sampler=sampler, drop_last=True)
    # Equally many on every rank: a sharded model is computed by all of them together.
    validation = DataLoader(torch.utils.data.Subset(held_out, range(rank, 64 - 64 % workers, workers)), batch_size=16)

    model = Transformer(config["width"], config["layers"], config["length"]).to(device)
    mesh = init_device_mesh(device.type, (workers,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    steps_in_all = config["epochs"] * (len(train) // config["batch"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=config["lr"], total_steps=steps_in_all + 1)
    parts = {"model": model, "optimizer": optimizer, "lr_scheduler": schedule, "sampler": sampler}

    start = checkpoint.load(**parts)
    step = start.step
    for epoch in trainjobs.epochs(start, config["epochs"]):
        sampler.set_epoch(epoch)
        model.train()
        for batch in sampler.track(loader):
            optimizer.zero_grad()
            loss_of(model, batch, device).backward()
            optimizer.step()
            schedule.step()
            step += 1
            if trainjobs.safe_point(every_seconds=config.get("saveSeconds", 120), every=10, step=step, **parts):
                return
        model.eval()
        with torch.no_grad():
            losses = [loss_of(model, batch, device).item() for batch in validation]
        bits = sum(losses) / len(losses) / 0.6931471805599453
        trainjobs.report({"bits_per_char": bits}, epoch=epoch, step=step, **parts)
