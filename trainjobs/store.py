"""The run's store behind one small interface: a directory (`file://`) or a prefix in S3 (`s3://`).

boto3 makes the conditional writes (write-once markers, the receipt's pointer); the pyarrow file system that Tune and
Train use is built here too, so that both see one region, one endpoint and one chain of credentials.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from trainjobs.outcome import DriverError
from trainsweep.contract.documents import FailureReason, StoreRef
from trainsweep.contract.layout import Location, parse_uri

logger = logging.getLogger(__name__)


class StoreError(DriverError):
    """The store refused or did not answer."""


def denied(message: str) -> StoreError:
    """A refusal that a retry would only repeat."""
    return StoreError(FailureReason.STORAGE_DENIED, message)


def unavailable(message: str) -> StoreError:
    """A fault that may pass."""
    return StoreError(FailureReason.STORAGE_UNAVAILABLE, message)


@dataclass(frozen=True)
class Entry:
    """One object: key relative to the run, size in bytes, last change in Unix seconds (the store's clock)."""

    key: str
    size: int
    modified: float


@dataclass(frozen=True)
class Upload:
    """An upload that was begun and not ended: relative key, the store's id of it, begin in Unix seconds."""

    key: str
    id: str
    started: float


class Store(ABC):
    """Objects of one run by relative key. Every method may raise StoreError."""

    def __init__(self, location: Location) -> None:
        self.location = location

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """The object's bytes, None where there is none."""

    @abstractmethod
    def tagged(self, key: str) -> tuple[bytes, str] | None:
        """Bytes and a tag for `replace`."""

    @abstractmethod
    def stream(self, key: str) -> Iterator[bytes]:
        """The bytes in pieces; FileNotFoundError where there is no such object."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Writes or overwrites an object, atomically."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> bool:
        """Writes an object that must not exist yet; False where it does."""

    @abstractmethod
    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """Overwrites the object that `tagged` returned; False where it has changed since."""

    @abstractmethod
    def entries(self, prefix: str) -> list[Entry]:
        """All objects below a folder, without directory markers."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Removes objects; those that do not exist are no error."""

    @abstractmethod
    def copy_to(self, key: str, target: Store, name: str) -> None:
        """Copies an object into another store of the same kind, where the bytes are, under another key."""

    @abstractmethod
    def filesystem(self) -> tuple[Any, str]:
        """The pyarrow file system for Tune and Train, and the run's path in it."""

    @abstractmethod
    def preflight(self, probe: str) -> None:
        """Writes, reads and deletes a probe through everything that writes here later."""

    def open_uploads(self) -> list[Upload]:
        """Uploads below the run's prefix that were begun and not ended; none where the store knows no such thing."""
        return []

    def abort(self, upload: Upload) -> None:  # noqa: B027 - where `open_uploads` finds none, there is none to end
        """Ends an open upload and drops what came of it."""

    def delete_tree(self, prefix: str) -> None:
        """Removes everything below a folder, its directory markers too."""
        self.delete([e.key for e in self.entries(prefix)])


def open_store(ref: StoreRef) -> Store:
    """The store that a sweep file names."""
    location = parse_uri(ref.uri)
    if location.scheme == "file":
        from trainjobs.filestore import FileStore

        return FileStore(location)
    from trainjobs.s3store import S3Store

    return S3Store(location, ref.region or None, ref.endpoint_url or None)


def probe_filesystem(fs: Any, root: str, probe: str, where: str) -> None:
    """Writes, reads and deletes through the file system that Ray is going to use, as Ray does: markers are empty objects.

    Args:
        fs: pyarrow's file system.
        root: of the run in it.
        probe: key of the probe.
        where: the run's URI, for messages.

    Raises:
        StoreError: naming the kind of write that is refused.
    """
    path, data = f"{root}/{probe}-fs", b"trainsweep"
    step = "writing"
    try:
        with fs.open_output_stream(path) as out:
            out.write(data)
        step = "reading"
        with fs.open_input_stream(path) as source:
            if source.read() != data:
                raise unavailable(f"{where}: {path} reads back other bytes than were written")
        step = "writing an empty object (Ray's markers are empty)"
        with fs.open_output_stream(path):
            pass
        step = "deleting"
        fs.delete_file(path)
    except OSError as error:
        text = str(error)
        if step == "deleting":
            logger.warning("retention cannot delete anything below %s: %s", where, text)
        elif "ACCESS_DENIED" in text or "403" in text or isinstance(error, PermissionError):
            raise denied(f"{step} below {where} with pyarrow is denied: {text}") from None
        elif step.startswith("writing an empty"):
            raise denied(f"{step} below {where} with pyarrow is refused: {text}; use a store that takes them") from None
        else:
            raise unavailable(f"{step} below {where} with pyarrow failed: {text}") from None
