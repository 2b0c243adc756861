"""The object store as the operator sees it: read-only, below one run's prefix, every answer bounded, refusals as types.

The calls block (so do the clients of object stores); whoever is on the event loop calls them in a bounded thread pool.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainsweep.contract.digests import Part
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


class Archived(Denied):
    """There, and in an archive: nobody can read it until it is restored."""


class Unavailable(StoreError):  # noqa: N818  # named for what it says
    """5xx, time-out, no connection: nothing is known."""


class TooLarge(StoreError):  # noqa: N818  # named for what it says
    """There, but larger than what may be read, or more than what may be listed."""


@dataclass(frozen=True)
class Entry:
    """An object of a listing: key relative to the run, size in bytes."""

    key: str
    size: int
    archived: bool = False
    """The listing names an archive as its storage class: it may still have been restored."""


@dataclass(frozen=True)
class Info:
    """What a store says of an object without reading it."""

    size: int
    checksums: tuple[Checksum, ...] = ()
    """Those that cover the whole object."""
    composites: tuple[Checksum, ...] = ()
    """Those over the checksums of its parts, with "-<number of parts>" at their end."""
    expires: str = ""
    """The store's own words on the lifecycle rule that will remove it, "" where none will."""


class Store(Protocol):
    """Reads below one prefix. Every method raises `StoreError` only."""

    @property
    def location(self) -> Location:
        """The run's prefix."""
        ...

    def get(self, key: str, limit: int) -> bytes:
        """An object of at most `limit` bytes. Raises TooLarge after reading no more than one byte above it."""
        ...

    def entries(self, folder: str) -> Iterator[Entry]:
        """All objects below a folder, in no order, without zero-byte folder markers. Only one page is held at a time."""
        ...

    def folder_names(self, folder: str) -> Iterator[str]:
        """Names of the folders directly below a folder, in no order; only one page is held at a time."""
        ...

    def listing(self, folder: str, limit: int) -> list[Entry]:
        """`entries` in order. Raises TooLarge above `limit` objects."""
        ...

    def folders(self, folder: str, limit: int) -> list[str]:
        """`folder_names` in order. Raises TooLarge above `limit` names."""
        ...

    def head(self, key: str) -> Info:
        """Size and checksums, without reading the object. Raises Archived where its bytes cannot be read."""
        ...

    def parts(self, key: str, algorithm: str) -> list[Part] | None:
        """Sizes and checksums of the parts that an object was uploaded in; None where the store does not tell."""
        ...

    def advice(self, key: str) -> str:
        """Why an object that should be there is not, and what to do, as far as the store tells us; "" where it does not."""
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


class Bounded:
    """`listing` and `folders` for a store that can stream."""

    def entries(self, folder: str) -> Iterator[Entry]:
        """See `Store`."""
        raise NotImplementedError

    def folder_names(self, folder: str) -> Iterator[str]:
        """See `Store`."""
        raise NotImplementedError

    def listing(self, folder: str, limit: int) -> list[Entry]:
        """See `Store`."""
        found: list[Entry] = []
        for entry in self.entries(folder):
            found.append(entry)
            if len(found) > limit:
                raise TooLarge(f"{folder} holds more than {limit} objects")
        return sorted(found, key=lambda e: e.key)

    def folders(self, folder: str, limit: int) -> list[str]:
        """See `Store`."""
        found: set[str] = set()
        for name in self.folder_names(folder):
            found.add(name)
            if len(found) > limit:
                raise TooLarge(f"{folder} holds more than {limit} folders")
        return sorted(found)


class FileStore(Bounded):
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

    def entries(self, folder: str) -> Iterator[Entry]:
        """See `Store`."""
        for base, _, names in os.walk(self._path(folder)):
            for name in names:
                relative = Path(base, name).relative_to(self._root).as_posix()
                yield Entry(relative, self._size(self._path(relative), relative))

    def folder_names(self, folder: str) -> Iterator[str]:
        """See `Store`."""
        try:
            with os.scandir(self._path(folder)) as found:
                yield from (item.name for item in found if item.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _os_error(error, folder) from None

    def head(self, key: str) -> Info:
        """See `Store`."""
        return Info(self._size(self._path(key), key))

    def parts(self, key: str, algorithm: str) -> list[Part] | None:
        """See `Store`. A folder keeps no checksums."""
        return None

    def advice(self, key: str) -> str:
        """See `Store`. A folder does not tell."""
        return ""

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
