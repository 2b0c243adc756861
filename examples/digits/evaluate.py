"""Loads a checkpoint of the digits sweep into a fresh model and measures it on images that nobody has seen.

    python examples/digits/evaluate.py DIRECTORY

The directory holds the checkpoint's files, for example copied by `aws s3 cp --recursive`.
"""

import json
import sys
from pathlib import Path

import torch
from train import Net, accuracy, images, splits

from trainjobs import checkpoint


def evaluate(folder: Path) -> dict[str, float]:
    """Test accuracy of the checkpoint and of the same network untrained."""
    train, validation, test = (set(part.tolist()) for part in splits())
    if test & (train | validation) or train & validation or len(train | validation | test) != 1797:
        raise AssertionError("the splits overlap: the test images were seen in training")
    shape = json.loads((folder / "progress.json").read_text())["state"]
    data, cpu = images(splits()[2]), torch.device("cpu")
    torch.manual_seed(0)
    model = Net(**shape)
    untrained = accuracy(model, data, cpu)
    checkpoint.read(folder, model=model)
    return {"accuracy": accuracy(model, data, cpu), "untrained": untrained, "images": len(data)}


if __name__ == "__main__":
    found = evaluate(Path(sys.argv[1]))
    print(json.dumps({k: round(v, 4) for k, v in found.items()}))
