"""The object store as the operator sees it: read-only, below one run's prefix, every answer bounded, refusals as types.

The calls block (so do the clients of object stores); whoever is on the event loop calls them in a bounded thread pool.
"""

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainsweep.contract.documents import Checksum
from trainsweep.contract.layout import Location, StorageURIError, relative_key

CHUNK = 1024 * 1024


class StoreError(Exception):
    """A read that gave no result; the text is for people."""


class Absent(StoreError):  # noqa: N818  # named for what it says
    """Definitely not there. Never the answer to a 403."""


class Denied(StoreError):  # noqa: N818  # named for what it says
    """Refused: credentials, policy, or no such bucket. Says nothing about the object."""


class WrongRegion(Denied):
    """The bucket lies in another region."""

    def __init__(self, bucket: str, region: str) -> None:
        self.region = region
        super().__init__(f"bucket {bucket} lies in region {region or 'another one'}: set spec.storage.region to it")


class Unavailable(StoreError):  # noqa: N818  # named for what it says
    """5xx, time-out, no connection: nothing is known."""


class TooLarge(StoreError):  # noqa: N818  # named for what it says
    """There, but larger than what may be read, or more than what may be listed."""


@dataclass(frozen=True)
class Entry:
    """An object of a listing: key relative to the run, size in bytes."""

    key: str
    size: int


@dataclass(frozen=True)
class Info:
    """An object's size and those of its stored checksums that cover the whole object."""

    size: int
    checksums: tuple[Checksum, ...] = ()


class Store(Protocol):
    """Reads below one run's prefix. Every method raises `StoreError` only."""

    @property
    def location(self) -> Location:
        """The run's prefix."""
        ...

    def get(self, key: str, limit: int) -> bytes:
        """An object of at most `limit` bytes. Raises TooLarge after reading no more than one byte above it."""
        ...

    def listing(self, folder: str, limit: int) -> list[Entry]:
        """All objects below a folder, without zero-byte folder markers. Raises TooLarge above `limit` objects."""
        ...

    def folders(self, folder: str, limit: int) -> list[str]:
        """Names of the folders directly below a folder, in order."""
        ...

    def head(self, key: str) -> Info:
        """Size and checksums, without reading the object."""
        ...

    def chunks(self, key: str) -> Iterator[bytes]:
        """The object's bytes, in pieces of at most a MiB."""
        ...

    def uploading(self, folder: str) -> set[str]:
        """Keys below a folder that are being uploaded right now, as far as the store tells us."""
        ...


def full_key(location: Location, key: str) -> str:
    """The store's key of a key relative to the run. The one place where a relative key becomes a full one.

    Raises:
        Denied: for a key that could leave the prefix.
    """
    try:
        return location.key(relative_key(key.rstrip("/")))
    except StorageURIError as error:
        raise Denied(str(error)) from None


class Hasher:
    """A checksum over a stream: SHA256, SHA1 or CRC32, as stores say it (base64, big-endian)."""

    SUPPORTED = ("SHA256", "SHA1", "CRC32")

    def __init__(self, algorithm: str) -> None:
        self._crc = 0
        self._hash = None
        if algorithm == "SHA256":
            self._hash = hashlib.sha256()
        elif algorithm == "SHA1":
            self._hash = hashlib.sha1(usedforsecurity=False)
        elif algorithm != "CRC32":
            raise ValueError(f"no own implementation of {algorithm}")

    def update(self, data: bytes) -> None:
        """More bytes."""
        if self._hash is not None:
            self._hash.update(data)
        else:
            self._crc = zlib.crc32(data, self._crc)

    def value(self) -> str:
        """Base64 of the digest."""
        raw = self._hash.digest() if self._hash is not None else self._crc.to_bytes(4, "big")
        return base64.b64encode(raw).decode()


def checksum_of(chunks: Iterable[bytes], algorithm: str, on_bytes: Callable[[int], None] | None = None) -> str:
    """The checksum of a stream, in bounded memory; `on_bytes` is told of every piece and may raise to give up."""
    hasher = Hasher(algorithm)
    for piece in chunks:
        hasher.update(piece)
        if on_bytes is not None:
            on_bytes(len(piece))
    return hasher.value()


class FileStore:
    """A folder of this machine, for runs without Kubernetes. Links that lead out of the run are refused."""

    def __init__(self, location: Location) -> None:
        if location.scheme != "file":
            raise StorageURIError(f"not a file:// location: {location.uri}")
        self._location = location
        self._root = Path("/" + location.prefix)

    @property
    def location(self) -> Location:
        """The run's folder."""
        return self._location

    def _path(self, key: str) -> Path:
        path = Path("/" + full_key(self._location, key))
        if not path.resolve().is_relative_to(self._root.resolve()):
            raise Denied(f"{key} leads out of the run")
        return path

    def get(self, key: str, limit: int) -> bytes:
        """See `Store`."""
        data = b"".join(self._pieces(key, limit + 1))
        if len(data) > limit:
            raise TooLarge(f"{key} has more than {limit} bytes")
        return data

    def listing(self, folder: str, limit: int) -> list[Entry]:
        """See `Store`."""
        found: list[Entry] = []
        for base, _, names in os.walk(self._path(folder)):
            for name in names:
                path = Path(base, name)
                relative = path.relative_to(self._root).as_posix()
                found.append(Entry(relative, self._size(self._path(relative), relative)))
                if len(found) > limit:
                    raise TooLarge(f"{folder} holds more than {limit} files")
        return sorted(found, key=lambda e: e.key)

    def folders(self, folder: str, limit: int) -> list[str]:
        """See `Store`."""
        try:
            names = sorted(p.name for p in self._path(folder).iterdir() if p.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _os_error(error, folder) from None
        if len(names) > limit:
            raise TooLarge(f"{folder} holds more than {limit} folders")
        return names

    def head(self, key: str) -> Info:
        """See `Store`."""
        return Info(self._size(self._path(key), key))

    def chunks(self, key: str) -> Iterator[bytes]:
        """See `Store`."""
        return self._pieces(key, None)

    def uploading(self, folder: str) -> set[str]:
        """See `Store`. A folder's files are there or are not."""
        return set()

    def _pieces(self, key: str, limit: int | None) -> Iterator[bytes]:
        path, left = self._path(key), limit
        try:
            with path.open("rb") as file:
                while piece := file.read(CHUNK if left is None else min(CHUNK, left)):
                    left = None if left is None else left - len(piece)
                    yield piece
        except OSError as error:
            raise _os_error(error, key) from None

    @staticmethod
    def _size(path: Path, key: str) -> int:
        try:
            return path.stat().st_size
        except OSError as error:
            raise _os_error(error, key) from None


def _os_error(error: OSError, key: str) -> StoreError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        return Absent(f"{key} is not there")
    if isinstance(error, PermissionError):
        return Denied(f"{key}: {error.strerror}")
    return Unavailable(f"{key}: {error.strerror or error}")
