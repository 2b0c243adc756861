"""Loads a checkpoint of the digits sweep into a fresh model and measures it on images that nobody has seen.

    python examples/digits/evaluate.py DIRECTORY
    python examples/digits/evaluate.py s3://bucket/…/checkpoint_…

The directory holds the checkpoint's files; from S3 they are copied with boto3, which finds credentials and endpoint in
the environment as always.
"""

import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

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


def download(uri: str, folder: Path) -> Path:
    """Copies every object below an s3:// URI into a folder."""
    import boto3

    place = urlsplit(uri)
    s3, prefix = boto3.client("s3"), place.path.strip("/") + "/"
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=place.netloc, Prefix=prefix):
        for item in page.get("Contents", []):
            if not item["Key"].endswith("/"):
                s3.download_file(place.netloc, item["Key"], str(folder / item["Key"].removeprefix(prefix)))
    return folder


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        where = sys.argv[1]
        found = evaluate(download(where, Path(temporary)) if where.startswith("s3://") else Path(where))
    print(json.dumps({k: round(v, 4) for k, v in found.items()}))
