"""An event loop on virtual time: it jumps to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0]._when)
        super()._run_once()


def run_virtual(coroutine: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(asyncio.wait_for(coroutine, 1e9))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
