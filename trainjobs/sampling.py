"""A sampler whose position is part of the checkpoint: an epoch goes on where it was, at any number of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler


class ResumableSampler(Sampler[int]):
    """A disjoint part of a map-style data set for each worker, shuffled anew in each epoch, that can go on in mid-epoch.

    The position counts samples of *all* workers, so it holds at another world size: what is left of the epoch is dealt
    out again, and no sample comes twice. Up to `workers - 1` samples at the end of an epoch are left out.

    Args:
        data: anything with a length.
        seed: of the shuffling; the same on every worker.
        shuffle: whether to shuffle.
        rank: of this worker; absent: as Ray Train says.
        world_size: number of workers; absent: as Ray Train says.

    Example:
        >>> sampler = ResumableSampler(data, seed=1)
        >>> loader = DataLoader(data, batch_size=32, sampler=sampler)
        >>> for epoch in trainjobs.epochs(start, 10):
        ...     sampler.set_epoch(epoch)
        ...     for batch in sampler.track(loader):
        ...         ...
    """

    def __init__(
        self,
        data: Sized,
        *,
        seed: int = 0,
        shuffle: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if rank is None or world_size is None:
            import ray.train

            context = ray.train.get_context()
            rank, world_size = context.get_world_rank(), context.get_world_size()
        self.size, self.seed, self.shuffle = len(data), seed, shuffle
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        self.done = 0
        """Samples of the running epoch that all workers together have trained on."""
        self._reached = 0

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch; the epoch that a checkpoint was loaded in goes on at its position instead."""
        if epoch != self.epoch:
            self.epoch, self.done, self._reached = epoch, 0, 0

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
            order = torch.randperm(self.size, generator=generator).tolist()
        else:
            order = list(range(self.size))
        left = order[self.done :]
        usable = (
            len(left) - len(left) % self.world_size
        )  # every rank takes equally many: a missing batch blocks the rest
        return iter(left[self.rank : usable : self.world_size])

    def __len__(self) -> int:
        return (self.size - self.done) // self.world_size

    def track(self, loader: DataLoader[Any]) -> Iterator[Any]:
        """The loader's batches; the position moves on when the next one is asked for, that is when one is done.

        Args:
            loader: made with this sampler and a `batch_size`.
        """
        if loader.sampler is not self or loader.batch_size is None:
            raise ValueError("track(loader) needs a DataLoader made with this sampler and a batch_size")
        resumed = torch.get_rng_state() if self.done else None
        batches = iter(loader)  # draws a seed from torch's generator; the interrupted epoch had drawn it before
        if resumed is not None:
            torch.set_rng_state(resumed)
        for batch in batches:
            self._reached = min(self.size, self.done + loader.batch_size * self.world_size)
            yield batch
            self.finish_batch()

    def finish_batch(self) -> None:
        """Counts the batch at hand as done: `trainjobs.safe_point` calls it before its checkpoint inside of an epoch."""
        self.done = self._reached

    def state_dict(self) -> dict[str, int]:
        """The position, as a checkpoint keeps it."""
        return {"epoch": self.epoch, "done": self.done, "size": self.size, "seed": self.seed}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Takes a position over.

        Raises:
            ValueError: where it was taken on data of another length or with another seed: it would mean other samples.
        """
        if state["done"] and (state["size"], state["seed"]) != (self.size, self.seed):
            raise ValueError(
                f"the checkpoint's position belongs to {state['size']} samples with seed {state['seed']}, "
                f"these are {self.size} with seed {self.seed}"
            )
        self.epoch, self.done, self._reached = state["epoch"], state["done"], state["done"]
