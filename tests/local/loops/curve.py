"""A loop whose losses are known before: the better x, the lower the curve; flat from the third epoch on."""

import trainjobs
from trainjobs import checkpoint

TRAINSWEEP_BACKEND = "none"


def train_loop(config):
    start = checkpoint.load()
    for epoch in trainjobs.epochs(start, config["epochs"]):
        trainjobs.report({"loss": config["x"] + config["y"] + 1 / min(epoch, 3)}, epoch=epoch, state={})
