"""The manifests of one checkpoint: one of rank 0, which says how many ranks wrote, and one of each other rank.

A rank whose upload never came leaves no trace but its absence: both looks find it by this one rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

from trainsweep.contract.documents import Manifest
from trainsweep.contract.layout import MANIFEST

_NAME = re.compile(r"^trainsweep-manifest(-rank[1-9][0-9]{0,4})?\.json$")
Problem = Literal["Absent", "WrongChecksum"]


def manifest_name(rank: int) -> str:
    """File name of a rank's manifest."""
    return MANIFEST if rank == 0 else f"trainsweep-manifest-rank{rank}.json"


def is_manifest(name: str) -> bool:
    """Whether a file of a checkpoint is a manifest."""
    return _NAME.match(name) is not None


def manifest_problems(
    listed: Collection[str], manifests: Mapping[str, Manifest | None], *, most: int = 64
) -> list[tuple[str, Problem]]:
    """What is wrong with the manifests of a checkpoint: file names with their problem, at most `most`.

    Args:
        listed: names of the files in the checkpoint's directory, or at least of its manifests.
        manifests: by name, those that are there; None for one that cannot be understood.
        most: how many problems are worth naming.
    """
    found: list[tuple[str, Problem]] = [(n, "WrongChecksum") for n, m in sorted(manifests.items()) if m is None]
    if MANIFEST in manifests:
        first = manifests[MANIFEST]
        for rank in range(1, first.world_size if first is not None else 1):
            if len(found) >= most:
                break
            if (name := manifest_name(rank)) not in listed:
                found.append((name, "Absent"))
    elif manifests:
        found.append((MANIFEST, "Absent"))
    return found[:most]
