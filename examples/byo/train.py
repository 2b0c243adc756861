"""Bring your own loop: plain `ray.train`, nothing of ours. What a sweep asks of it: `epoch`, a checkpoint, a way back."""

import tempfile

import ray.train
import torch
from sklearn.datasets import load_wine


def train_loop(config):
    data, model, state = load_wine(), torch.nn.Linear(13, 3), {"epoch": 0}
    x, y = torch.nn.functional.normalize(torch.tensor(data.data).float(), dim=0) * 13, torch.tensor(data.target)
    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder:
            state = torch.load(f"{folder}/state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        if state["epoch"] >= config["epochs"]:  # interrupted after the last checkpoint: say the result once more
            ray.train.report({"loss": state["loss"], "epoch": state["epoch"]})
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    for epoch in range(state["epoch"] + 1, config["epochs"] + 1):
        for part in torch.randperm(len(x)).split(20):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
        loss = torch.nn.functional.cross_entropy(model(x), y).item()
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"model": model.state_dict(), "epoch": epoch, "loss": loss}, f"{folder}/state.pt")
            ray.train.report({"loss": loss, "epoch": epoch}, checkpoint=ray.train.Checkpoint.from_directory(folder))
