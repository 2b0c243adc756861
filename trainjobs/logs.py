"""The driver's log, kept in memory to its last MiB and shipped to the run's store: it can be read after teardown."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, TextIO

LIMIT = 1 << 20


class Tail:
    """The last bytes of everything written."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._lock = limit, threading.Lock()
        self._data, self._cut, self._changed = bytearray(), False, False

    def add(self, text: str) -> None:
        """Appends text."""
        with self._lock:
            self._data += text.encode("utf-8", "replace")
            self._changed = True
            if len(self._data) > 2 * self._limit:
                del self._data[: len(self._data) - self._limit]
                self._cut = True

    def take(self) -> bytes | None:
        """The text if it changed since the last call."""
        with self._lock:
            if not self._changed:
                return None
            self._changed = False
            data = bytes(self._data[-self._limit :])
            if self._cut or len(self._data) > self._limit:
                data = b"[the beginning was cut]\n" + data.partition(b"\n")[2]
            return data


class _Tee:
    """A text stream that also feeds a tail. What it does not know is the stream's own business."""

    def __init__(self, stream: TextIO, tail: Tail) -> None:
        self._stream, self._tail = stream, tail

    def write(self, text: str) -> int:
        self._tail.add(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def set_up() -> Tail:
    """Logs to standard error and keeps a tail of it; what Ray prints for its workers passes the same way."""
    tail = Tail()
    sys.stdout, sys.stderr = _Tee(sys.stdout, tail), _Tee(sys.stderr, tail)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("trainjobs")
    root.setLevel(logging.INFO)
    root.handlers = [handler]
    root.propagate = False
    return tail
