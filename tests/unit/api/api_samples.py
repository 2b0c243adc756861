"""A valid spec to change, and ways to change it."""

from __future__ import annotations

import copy
import re
from typing import Any

SPEC: dict[str, Any] = {
    "objective": {"metric": "val_loss", "mode": "Minimize"},
    "search": {
        "algorithm": {"random": {}},
        "parameters": [
            {"name": "lr", "float": {"min": 1e-5, "max": 0.1, "log": True}},
            {"name": "width", "categorical": {"values": [64, 128]}},
        ],
    },
    "trials": {"count": 4},
    "training": {"entrypoint": "my_pkg.train:loop"},
}


def spec(**changes: Any) -> dict[str, Any]:
    """The sample with values set at paths, `__` for a dot: `spec(trials__count=3)`."""
    return changed({path.replace("__", "."): value for path, value in changes.items()})


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The sample with values set at paths such as `search.parameters[0].float.min`."""
    out = copy.deepcopy(SPEC)
    for path, value in changes.items():
        put(out, path, value)
    return out


def put(node: Any, path: str, value: Any) -> None:
    """Sets a value, making the maps on the way."""
    parts: list[str | int] = [int(p) if p.isdigit() else p for p in re.findall(r"[^.\[\]]+", path)]
    for part in parts[:-1]:
        node = node[part] if isinstance(part, int) else node.setdefault(part, {})
    node[parts[-1]] = value
