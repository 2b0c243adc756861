"""How a rank's checkpoint comes into the store: its files, their checksums meanwhile, and the manifest last."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from trainjobs.manifest import list_files, manifest_name
from trainsweep.contract.documents import Manifest

PIECE = 1 << 20
"""Bytes read at a time. Ray's own upload reads 64 MiB, and sends them as one part: in smaller ones, parts go side by side."""


def with_manifest(*, rank: int, world_size: int, config_hash: str, step: int) -> Callable[[Any, str], Any]:
    """A `checkpoint_upload_fn` for `ray.train.report`; its arguments are those of `write_manifest`.

    The checksums are of the local files, so they need not be done before the upload begins. Call this in the training
    thread; Ray calls what comes back in a thread of its own where it uploads in the background, and again where the store
    failed.
    """
    import pyarrow.fs
    import ray.train

    storage = ray.train.get_context().get_storage()
    store, root = storage.storage_filesystem, storage.experiment_fs_path

    def upload(checkpoint: Any, name: str) -> Any:
        target = f"{root}/{name}"
        with ThreadPoolExecutor(1) as beside:
            listed = beside.submit(list_files, Path(checkpoint.path))
            store.create_dir(target)
            # Several threads may hang in pyarrow's S3 (apache/arrow 32372).
            pyarrow.fs.copy_files(
                checkpoint.path, target, destination_filesystem=store, chunk_size=PIECE, use_threads=False
            )
            manifest = Manifest(config_hash=config_hash, step=step, world_size=world_size, files=listed.result())
        with store.open_output_stream(f"{target}/{manifest_name(rank)}") as out:
            out.write(manifest.to_json())
        return ray.train.Checkpoint(target, filesystem=store)

    return upload


def discard(folder: Path) -> None:
    """Removes a folder: its name is gone at once, its bytes meanwhile, as a large one takes a tenth of its upload's time."""
    gone = folder.with_name(f".{folder.name}-{os.getpid()}-{time.monotonic_ns()}")
    try:
        folder.rename(gone)
    except OSError:  # not ours to rename
        shutil.rmtree(folder, ignore_errors=True)
        return
    threading.Thread(target=shutil.rmtree, args=(gone,), kwargs={"ignore_errors": True}).start()
