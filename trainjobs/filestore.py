"""A run in a local directory: for a laptop and for tests. One machine only: Ray workers elsewhere would not see it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trainjobs.store import Entry, Store, denied, probe_filesystem, unavailable
from trainsweep.contract.layout import Location

_CHUNK = 1 << 20


class FileStore(Store):
    """Objects are files; writes go through a temporary name, so that a reader never sees half of one."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self.root = Path("/" + location.prefix)

    def _path(self, key: str) -> Path:
        return self.root / key

    def get(self, key: str) -> bytes | None:
        """See Store."""
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise unavailable(f"cannot read {self._path(key)}: {error.strerror}") from None

    def tagged(self, key: str) -> tuple[bytes, str] | None:
        """See Store; the tag is a digest of the bytes."""
        data = self.get(key)
        return None if data is None else (data, hashlib.sha256(data).hexdigest())

    def stream(self, key: str) -> Iterator[bytes]:
        """See Store."""
        with self._path(key).open("rb") as source:
            while piece := source.read(_CHUNK):
                yield piece

    def _temporary(self, path: Path, data: bytes) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        return name

    def put(self, key: str, data: bytes) -> None:
        """See Store."""
        path = self._path(key)
        try:
            os.replace(self._temporary(path, data), path)
        except PermissionError as error:
            raise denied(f"cannot write {path}: {error.strerror}") from None
        except OSError as error:
            raise unavailable(f"cannot write {path}: {error.strerror}") from None

    def create(self, key: str, data: bytes) -> bool:
        """See Store: a hard link to the finished file fails where the name exists, and shows whole bytes only."""
        path = self._path(key)
        try:
            name = self._temporary(path, data)
            try:
                os.link(name, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(name)
        except PermissionError as error:
            raise denied(f"cannot write {path}: {error.strerror}") from None
        except OSError as error:
            raise unavailable(f"cannot write {path}: {error.strerror}") from None
        return True

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """See Store: compare and swap under a lock file beside the run."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self.tagged(key)
            if found is None or found[1] != tag:
                return False
            self.put(key, data)
            return True

    def entries(self, prefix: str) -> list[Entry]:
        """See Store."""
        base = self._path(prefix)
        found = []
        for folder, _, names in os.walk(base):
            for name in names:
                path = Path(folder) / name
                if name.startswith(".part-"):
                    continue
                try:
                    stat = path.stat()
                except FileNotFoundError:
                    continue
                found.append(Entry(path.relative_to(self.root).as_posix(), stat.st_size, stat.st_mtime))
        return sorted(found, key=lambda e: e.key)

    def delete(self, keys: Iterable[str]) -> None:
        """See Store."""
        for key in keys:
            self._path(key).unlink(missing_ok=True)

    def delete_tree(self, prefix: str) -> None:
        """See Store."""
        shutil.rmtree(self._path(prefix), ignore_errors=True)

    def copy_to(self, key: str, target: Store, name: str) -> None:
        """See Store."""
        if not isinstance(target, FileStore):
            raise denied(f"a run in a folder is exported to a folder, not to {target.location.uri}")
        path = target._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
            with os.fdopen(handle, "wb") as out, self._path(key).open("rb") as source:
                shutil.copyfileobj(source, out, _CHUNK)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, path)
        except PermissionError as error:
            raise denied(f"cannot write {path}: {error.strerror}") from None
        except OSError as error:
            raise unavailable(f"cannot copy {key} to {path}: {error.strerror}") from None

    def filesystem(self) -> tuple[Any, str]:
        """See Store."""
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem(), str(self.root)

    def preflight(self, probe: str) -> None:
        """See Store."""
        self.put(probe, b"trainsweep")
        if self.get(probe) != b"trainsweep":
            raise unavailable(f"{self.root} reads back other bytes than were written")
        self.delete([probe])
        fs, root = self.filesystem()
        probe_filesystem(fs, root, probe, str(self.root))
