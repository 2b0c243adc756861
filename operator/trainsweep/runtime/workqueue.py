"""A delaying work queue: dirty and processing sets, a heap of wake-ups on loop time, back-off per key.

A key is worked on by at most one worker at a time; adds while it is worked on collapse into one more pass. The set
logic is that of client-go's workqueue; times are the event loop's, so tests can run it on virtual time.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_AHEAD = 300.0
"""A wake-up is never set further ahead: the wall clock may step, and the key then derives its deadline anew."""


def backoff_seconds(failures: int, *, initial: float, longest: float, draw: Callable[[], float]) -> float:
    """Pause after the n-th failure in a row: doubles from `initial` to `longest`, then cut by up to half (jitter).

    Args:
        failures: failures in a row, from 1.
        initial: pause after the first, in seconds.
        longest: upper bound, in seconds.
        draw: gives a number in [0, 1).
    """
    full = min(longest, initial * 2.0 ** min(failures - 1, 32))
    return full * (1.0 - 0.5 * draw())


class WorkQueue(Generic[K]):
    """Work to do, now and later. Not thread-safe: it belongs to one event loop."""

    def __init__(
        self,
        *,
        initial_backoff: float = 1.0,
        longest_backoff: float = MAX_AHEAD,
        draw: Callable[[], float] = random.random,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        """`on_wait` is told how long each key was ready before a worker took it, in seconds."""
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._kick = asyncio.Event()
        self._order = itertools.count()
        self._dirty: dict[K, float] = {}  # key -> loop time since when it is ready
        self._active: set[K] = set()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._failures: dict[K, int] = {}
        self._initial, self._longest, self._draw, self._on_wait = initial_backoff, longest_backoff, draw, on_wait
        self.last_beat: float | None = None
        """Loop time at which a worker last took or finished a key."""

    def __len__(self) -> int:
        """Keys that wait for a worker."""
        return len(self._dirty)

    @property
    def delayed(self) -> int:
        """Keys with a wake-up in the future."""
        return len(self._due)

    @property
    def active(self) -> int:
        """Keys that a worker holds."""
        return len(self._active)

    def oldest_wait(self) -> float:
        """Seconds that the oldest ready key has waited for a worker; 0 where none waits."""
        return self._now() - min(self._dirty.values()) if self._dirty else 0.0

    def add(self, key: K) -> None:
        """Work on the key as soon as a worker is free."""
        if key in self._dirty:
            return
        self._dirty[key] = self._now()
        if key not in self._active:
            self._ready.put_nowait(key)

    def add_at(self, key: K, when: float) -> None:
        """Work on the key at a loop time; the earliest of several wins."""
        when = min(when, self._now() + MAX_AHEAD)
        if key not in self._due or when < self._due[key]:
            self._due[key] = when
            heapq.heappush(self._heap, (when, next(self._order), key))
            self._kick.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on the key after some seconds."""
        self.add_at(key, self._now() + max(0.0, seconds))

    def retry(self, key: K, at_least: float = 0.0) -> float:
        """Work on a key that failed after its back-off, or after `at_least` seconds; returns the pause."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = backoff_seconds(failures, initial=self._initial, longest=self._longest, draw=self._draw)
        pause = min(max(pause, at_least), MAX_AHEAD)
        self.add_after(key, pause)
        return pause

    def succeeded(self, key: K) -> None:
        """Forgets the failures of a key."""
        self._failures.pop(key, None)

    def drop(self, key: K) -> None:
        """Forgets a key whose object is gone: its failures and its wake-up."""
        self._failures.pop(key, None)
        self._due.pop(key, None)

    async def clock(self) -> None:
        """Moves due keys to the workers, for ever."""
        while True:
            self._kick.clear()
            now = self._now()
            while self._heap and self._heap[0][0] <= now:
                when, _, key = heapq.heappop(self._heap)
                if self._due.get(key) == when:
                    del self._due[key]
                    self.add(key)
            wait = self._heap[0][0] - now if self._heap else None
            # Not wait_for: before Python 3.12 it can swallow a cancellation that comes together with the kick.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._kick.wait()

    async def worker(self, work: Callable[[K], Awaitable[None]]) -> None:
        """Works on one key after the other, for ever. `work` turns every error into an outcome."""
        while True:
            key = await self._ready.get()
            since = self._dirty.pop(key, self._now())
            self._active.add(key)
            self.last_beat = self._now()
            if self._on_wait is not None:
                self._on_wait(self.last_beat - since)
            try:
                await work(key)
            finally:
                self._active.discard(key)
                self.last_beat = self._now()
                if key in self._dirty:
                    self._ready.put_nowait(key)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
