"""An event loop on virtual time: what waits costs nothing, and the same seed gives the same order of everything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Stuck(AssertionError):  # noqa: N818  # named for what it says
    """Nothing is left to happen."""


class Clock(asyncio.BaseEventLoop):
    """Time jumps to the next timer as soon as nobody is ready. No threads, no files, no sockets."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self._at = start
        self._selector = self
        self._clock_resolution = 1e-6  # above what a float of this size can tell apart
        self.trouble: BaseException | None = None
        """The first failure of anything that ran here; it ends the run."""
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        return self._at

    def until(self, when: float) -> None:
        """Lets everything happen that is due until then.

        Raises:
            Whatever failed meanwhile.
        """
        timer = self.call_at(when, self.stop)
        self.run_forever()
        timer.cancel()
        if self.trouble is not None:
            raise self.trouble

    def drain(self) -> None:
        """Lets what was cancelled end; what is left when a loop closes would complain at some later time."""
        for _ in range(100):
            if not asyncio.all_tasks(self):
                return
            self.call_soon(self.stop)
            self.run_forever()
        raise AssertionError(f"still running: {asyncio.all_tasks(self)}")

    def fail(self, trouble: BaseException) -> None:
        """Ends the run; the first failure counts."""
        if self.trouble is None:
            self.trouble = trouble
        self.stop()

    def _failed(self, _: Any, context: dict[str, Any]) -> None:
        found = context.get("exception")
        self.fail(found if isinstance(found, BaseException) else AssertionError(context.get("message")))

    # ------------------------------------------------------------------ what BaseEventLoop asks of its subclasses

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck("nothing is left to happen")
        if timeout > 0:
            self._at = max(self._at, self._scheduled[0].when())  # type: ignore[attr-defined]  # not in the stubs
        return []

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        raise AssertionError("a thread was asked for")
