"""A loop with long epochs: saves inside of them, and uploads its reports in the background; no torch."""

import time

import trainjobs
from trainjobs import checkpoint

TRAINSWEEP_BACKEND = "none"


def train_loop(config):
    start = checkpoint.load()
    state = dict(start.state or {"x": 0.0, "batch": 0, "loaded": 0})
    state["loaded"] += 1
    for epoch in trainjobs.epochs(start, config["epochs"]):
        while state["batch"] < config["batches"]:
            time.sleep(0.25)
            state["x"] += config["rate"] * (3.0 - state["x"])
            state["batch"] += 1
            step = (epoch - 1) * config["batches"] + state["batch"]
            if trainjobs.safe_point(every_seconds=4.0, state=state, step=step):
                return
        state["batch"] = 0
        loss = abs(3.0 - state["x"])
        trainjobs.report({"loss": loss}, epoch=epoch, state=state, step=epoch * config["batches"], background=True)
