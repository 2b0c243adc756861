"""One rank of a small FSDP2 training on the CPU, started as a process: saves or loads, then writes what it has.

python shard_worker.py RANK WORLD_SIZE MEETING_FILE FOLDER MODE STEPS
"""

import sys
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from trainjobs import checkpoint

HASH = "0123456789"


def parts(sharded: bool):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    if sharded:
        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    return {"model": model, "optimizer": optimizer, "lr_scheduler": schedule}


def batch(step: int, rank: int, world_size: int) -> torch.Tensor:
    """This rank's part of a global batch of twelve."""
    data = torch.randn(12, 6, generator=torch.Generator().manual_seed(step))
    return data[rank::world_size]


def train(all_parts, first: int, steps: int, rank: int, world_size: int) -> None:
    for step in range(first, first + steps):
        all_parts["optimizer"].zero_grad()
        all_parts["model"](batch(step, rank, world_size)).square().mean().backward()
        all_parts["optimizer"].step()
        all_parts["lr_scheduler"].step()


def whole(model) -> dict[str, torch.Tensor]:
    return {k: (v.full_tensor() if hasattr(v, "full_tensor") else v).detach() for k, v in model.state_dict().items()}


def main(rank: int, world_size: int, meeting: str, folder: str, mode: str, steps: int) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=world_size)
    here, mine = Path(folder), parts(sharded=True)
    first = 0
    if mode == "resume":
        first = checkpoint.read(here / "checkpoint", rank=rank, config_hash=HASH, **mine).step
    train(mine, first, steps, rank, world_size)
    if mode == "save":
        own = here / f"rank{rank}"
        own.mkdir()
        save = {"epoch": 1, "step": steps, "rank": rank, "world_size": world_size, "config_hash": HASH}
        checkpoint.save(own, **save, **mine)
        train(mine, steps, 2, rank, world_size)  # what an uninterrupted run has two steps later
    state = whole(mine["model"])
    if rank == 0:
        torch.save(state, here / f"{mode}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6]))
