"""The raw side's loops: the same training as our examples', with plain `ray.train` and `torch.save`."""

import json
import sys
import tempfile
import time
from pathlib import Path

import ray.train

ROOT = Path(__file__).resolve().parents[2]


def tiny(config: dict) -> None:
    """examples/tiny without trainjobs."""
    x, done = 0.0, 0
    found = ray.train.get_checkpoint()
    if found:
        with found.as_directory() as folder:
            state = json.loads((Path(folder) / "state.json").read_text())
        x, done = state["x"], state["epoch"]
    for epoch in range(done + 1, config["epochs"] + 1):
        time.sleep(config["seconds"])
        x += config["rate"] * (3.0 - x)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "state.json").write_text(json.dumps({"x": x, "epoch": epoch}))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": abs(3.0 - x), "epoch": epoch}, checkpoint=checkpoint)


def digits(config: dict) -> None:
    """examples/digits without trainjobs."""
    import ray.train.torch
    import torch

    sys.path.insert(0, str(ROOT / "examples" / "digits"))
    from train import Net, accuracy, images, splits

    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    context = ray.train.get_context()
    rank, workers = context.get_world_rank(), context.get_world_size()
    train_indices, val_indices, _ = splits()
    train, validation = images(train_indices), images(val_indices[rank::workers])
    sampler = torch.utils.data.DistributedSampler(train, workers, rank, seed=config["seed"], drop_last=True)
    loader = torch.utils.data.DataLoader(train, config["batch"] // workers, sampler=sampler, drop_last=True)
    device = torch.device("cpu")
    model = ray.train.torch.prepare_model(Net(config["width"], config["dropout"]), move_to_device=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=config["epochs"])
    for epoch in range(1, config["epochs"] + 1):
        sampler.set_epoch(epoch)
        model.train()
        for pixels, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pixels), labels).backward()
            optimizer.step()
        schedule.step()
        metrics = {"val_accuracy": accuracy(model, validation, device), "epoch": epoch}
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                whole = getattr(model, "module", model)
                state = {"model": whole.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
                torch.save({**state, "schedule": schedule.state_dict()}, Path(folder) / "state.pt")
            torch.save({"rng": torch.get_rng_state()}, Path(folder) / f"rank-{rank}.pt")
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))
