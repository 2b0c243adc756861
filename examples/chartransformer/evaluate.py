"""Loads a sharded checkpoint into one plain model, in one process, and measures it on text that training never saw.

python examples/chartransformer/evaluate.py DIRECTORY LAYERS WIDTH LENGTH
"""

import json
import sys
from pathlib import Path

import torch
from train import HELD_OUT, Transformer, Windows, loss_of, text_of

from trainjobs import checkpoint


@torch.no_grad()
def evaluate(folder: Path, layers: int, width: int, length: int) -> dict[str, float]:
    """Bits per character of the checkpoint and of the same model untrained."""
    torch.manual_seed(0)
    model, windows = Transformer(width, layers, length), Windows(text_of(HELD_OUT), length, 64)
    batch = tuple(torch.stack(part) for part in zip(*[windows[i] for i in range(64)], strict=True))

    def bits() -> float:
        return loss_of(model, batch, torch.device("cpu")).item() / 0.6931471805599453

    untrained = bits()
    resume = checkpoint.read(folder, model=model)
    return {"bitsPerChar": bits(), "untrained": untrained, "epoch": resume.epoch, "step": resume.step}


if __name__ == "__main__":
    print(json.dumps(evaluate(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:5]))))
