"""The manifest that a checkpoint carries: name, size and checksums of every file, written before the upload.

One worker: `trainsweep-manifest.json`. Several: rank 0 writes that name for its files, rank r writes
`trainsweep-manifest-rank<r>.json` for its own; the checkpoint is what all of them list together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainjobs.checksums import checksums_of
from trainsweep.contract.documents import FileEntry, Manifest
from trainsweep.contract.manifests import is_manifest, manifest_name

__all__ = ["is_manifest", "manifest_name", "pieces", "write_manifest"]


def pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, one MiB at a time."""
    with path.open("rb") as source:
        while piece := source.read(1 << 20):
            yield piece


def write_manifest(folder: Path, *, rank: int, world_size: int, config_hash: str, step: int) -> Manifest:
    """Lists every file of a checkpoint's local folder and writes the manifest beside them."""
    files = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if is_manifest(name) or name == ".metadata.json":  # Ray rewrites its own metadata during the upload
            continue
        size, sums = checksums_of(pieces(path))
        files.append(FileEntry(path=name, size=size, checksums=sums))
    manifest = Manifest(config_hash=config_hash, step=step, world_size=world_size, files=files)
    (folder / manifest_name(rank)).write_bytes(manifest.to_json())
    return manifest
