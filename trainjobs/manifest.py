"""The manifest that a checkpoint carries: name, size and checksums of every file, from the local files.

One worker: `trainsweep-manifest.json`. Several: rank 0 writes that name for its files, rank r writes
`trainsweep-manifest-rank<r>.json` for its own; the checkpoint is what all of them list together.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainjobs.checksums import checksums_of
from trainsweep.contract.documents import FileEntry, Manifest
from trainsweep.contract.manifests import is_manifest, manifest_name

__all__ = ["is_manifest", "list_files", "manifest_name", "pieces", "write_manifest"]


def pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, one MiB at a time."""
    with path.open("rb") as source:
        while piece := source.read(1 << 20):
            yield piece


def list_files(folder: Path) -> list[FileEntry]:
    """Every file of a checkpoint's local folder with its size and checksums."""
    files = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if is_manifest(name) or name == ".metadata.json":  # Ray rewrites its own metadata during the upload
            continue
        size, sums = checksums_of(pieces(path))
        files.append(FileEntry(path=name, size=size, checksums=sums))
    return files


def write_manifest(folder: Path, *, rank: int, world_size: int, config_hash: str, step: int) -> Manifest:
    """Lists the files of a checkpoint's local folder and writes the manifest beside them.

    Args:
        folder: what this rank saved.
        rank: of this worker.
        world_size: number of workers.
        config_hash: of the trial.
        step: finished epochs.
    """
    manifest = Manifest(config_hash=config_hash, step=step, world_size=world_size, files=list_files(folder))
    (folder / manifest_name(rank)).write_bytes(manifest.to_json())
    return manifest
