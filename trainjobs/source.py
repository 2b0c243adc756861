"""The training code of `training.source.s3`: fetched once on a node, checked, unpacked safely, put on `sys.path`.

Fetched by the driver and by every worker itself, so that an error has the driver's words and reasons: an init container would
only be seen to fail.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import logging
import shutil
import stat
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from trainjobs import flags
from trainjobs.outcome import DriverError
from trainjobs.patience import patiently
from trainjobs.store import open_store
from trainsweep.contract.documents import FailureReason, StoreRef

logger = logging.getLogger(__name__)

MAX_FILES, MAX_BYTES = 10_000, 1 << 30
"""Of an archive unpacked: code, not data."""


@dataclass(frozen=True)
class Archive:
    """Where the code is; pickled to the trial drivers and workers."""

    uri: str
    sha256: str
    region: str | None = None
    endpoint: str | None = None


def _bad(archive: Archive, text: str) -> DriverError:
    return DriverError(FailureReason.BAD_ENTRYPOINT, f"training.source.s3 {archive.uri}: {text}")


def _safe(archive: Archive, name: str) -> PurePosixPath | None:
    """The path of a member below the folder; None for the folder itself."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise _bad(archive, f"{name!r} would be unpacked outside of the folder: it is not unpacked at all")
    return path if path.parts else None


def _members(archive: Archive, file: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Name, size and bytes (None for a folder) of every member."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as opened:
            for info in opened.infolist():
                if stat.S_ISLNK(info.external_attr >> 16):
                    raise _bad(archive, f"{info.filename!r} is a link: pack the file itself")
                yield info.filename, info.file_size, None if info.is_dir() else opened.open(info)
        return
    try:
        with tarfile.open(file) as opened:
            for member in opened:
                if not (member.isfile() or member.isdir()):
                    raise _bad(archive, f"{member.name!r} is a link or a device: pack the file itself")
                yield member.name, member.size, opened.extractfile(member)
    except tarfile.TarError as error:
        raise _bad(archive, f"is neither a .zip nor a .tar(.gz): {error}") from None


def unpack(archive: Archive, file: Path, into: Path) -> None:
    """Unpacks an archive: plain files and folders only, all below the folder, within limits.

    Raises:
        DriverError: BadEntrypoint, naming the member.
    """
    count = total = 0
    for name, size, data in _members(archive, file):
        path = _safe(archive, name)
        count, total = count + 1, total + size
        if count > MAX_FILES or total > MAX_BYTES:
            raise _bad(archive, f"holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: this is for code")
        if path is None:
            continue
        target = into / path
        if data is None:
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with data, target.open("wb") as out:
            left = size
            while piece := data.read(min(1 << 20, left + 1)):
                left -= len(piece)
                if left < 0:
                    raise _bad(archive, f"{name!r} is longer than the archive says")
                out.write(piece)


def _download(archive: Archive, file: Path) -> None:
    parent, _, key = archive.uri.rpartition("/")
    store = open_store(StoreRef(uri=parent, region=archive.region, endpoint_url=archive.endpoint))

    def call() -> None:
        digest = hashlib.sha256()
        with file.open("wb") as out:
            for piece in store.stream(key):
                digest.update(piece)
                out.write(piece)
        if digest.hexdigest() != archive.sha256:
            raise _bad(archive, f"has SHA-256 {digest.hexdigest()}, expected {archive.sha256}: nothing was unpacked")

    try:
        patiently("fetching the training code", call)
    except FileNotFoundError:
        raise _bad(archive, "does not exist") from None


def ensure(archive: Archive | None) -> None:
    """Makes the code importable in this process; a node fetches it once, whoever comes first.

    Raises:
        DriverError: BadEntrypoint for a missing, changed or unsafe archive, Storage* as the store says.
    """
    if archive is None:
        return
    base = flags.folder("source")
    base.mkdir(parents=True, exist_ok=True)
    place = base / archive.sha256
    with (base / f"{archive.sha256}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=base) as folder:
                file, fresh = Path(folder) / "archive", Path(folder) / "code"
                fresh.mkdir()
                _download(archive, file)
                unpack(archive, file, fresh)
                shutil.move(fresh, place)
            logger.info("the code of %s lies in %s", archive.uri, place)
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
        importlib.invalidate_caches()


def archive_of(spec: Any) -> Archive | None:
    """The archive that a sweep's spec names."""
    source = spec.training.source
    if source is None or source.s3 is None:
        return None
    storage = spec.storage
    return Archive(source.s3.uri, source.s3.sha256, storage.region or None, storage.endpoint_url or None)
