"""The loop of the e2e tests: no torch, one file a checkpoint, as slow and as faulty as its config says.

config: epochs; seconds an epoch; fail: epoch at which it raises. The state counts every epoch that was really trained and
where, so that a test can tell what ran twice.
"""

import hashlib
import socket
import time

import trainjobs
from trainjobs import checkpoint

TRAINSWEEP_BACKEND = "none"


def loop(config):
    start = checkpoint.load()
    trained = list(start.state["trained"]) if start.state else []
    for epoch in trainjobs.epochs(start, config["epochs"]):
        until = time.monotonic() + config["seconds"]
        while time.monotonic() < until and not trainjobs.stop_requested():
            time.sleep(0.05)
        if epoch == config.get("fail"):
            raise RuntimeError(f"told to fail at epoch {epoch}")
        trained.append([epoch, socket.gethostname()])
        weights = hashlib.sha256(f"{config['slope']}-{epoch}".encode()).hexdigest() * 64
        score = config["slope"] * epoch / config["epochs"]
        trainjobs.report({"score": score}, epoch=epoch, state={"trained": trained, "weights": weights})
        if trainjobs.stop_requested():
            return
