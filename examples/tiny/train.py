"""The smallest loop: a parabola instead of a network, no torch. It shows what a loop owes; most e2e tests run it."""

import time

import trainjobs
from trainjobs import checkpoint

TRAINSWEEP_BACKEND = "none"  # no torch, no process group: a trial starts in half the time


def train_loop(config):
    """Walks towards the minimum at 3; the loss is the distance."""
    start = checkpoint.load()
    x = start.state["x"] if start.state else 0.0
    for epoch in trainjobs.epochs(start, config.get("epochs", 2)):
        time.sleep(config.get("seconds", 0))
        x += config["rate"] * (3.0 - x)
        trainjobs.report({"loss": abs(3.0 - x)}, epoch=epoch, state={"x": x})
        if trainjobs.stop_requested():
            return
