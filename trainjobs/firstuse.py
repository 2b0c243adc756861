"""The first use of a node: its way to the store is tried before a loop trains for hours towards a checkpoint it cannot write.

The driver has tried its own way; a worker's node may have another identity, region or network. Once a node and attempt.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from trainjobs import flags
from trainjobs.outcome import DriverError
from trainjobs.store import probe_filesystem, unavailable


def try_store(attempt_id: str, filesystem: Any, root: str) -> None:
    """Writes, reads and deletes a probe from this node, unless that has been done in this attempt.

    Args:
        attempt_id: of the driver; its own node has been tried by it.
        filesystem: pyarrow's file system, as Train uses it.
        root: the run in it.

    Raises:
        DriverError: naming the node and what is refused.
    """
    place = flags.folder(attempt_id)
    mark, node = place / "store-tried", socket.gethostname()
    if mark.exists() or (place / "pid").exists():
        return
    try:
        probe_filesystem(filesystem, root, f".preflight-{attempt_id}-{node}-{os.getpid()}", root)
    except DriverError as error:
        raise DriverError(error.reason, f"node {node}: {error.message}") from None
    except Exception as error:  # whatever a file system of another kind raises
        raise unavailable(f"node {node}: the store cannot be used: {error}") from None
    place.mkdir(parents=True, exist_ok=True)
    mark.touch()
