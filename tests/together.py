"""Tests that mostly wait, waiting together: `@concurrent` runs a test's body in the background.

The bodies are plain functions of the world, that is of what their layer's tests share (and of their parameters); pytest
then meets each where its turn comes.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

BODY, LONG = "_concurrent_body", "_long_body"


def long(test: Callable[..., None]) -> Callable[..., None]:
    """Gives a concurrent test a thread of its own: it waits for a clock more than for the machine."""
    setattr(test, LONG, True)
    return test


def concurrent(body: Callable[..., None]) -> Callable[..., None]:
    """Makes a test of a body whose first parameter is the world."""
    parameters = list(inspect.signature(body).parameters.values())[1:]

    @functools.wraps(body)
    def test(background: Background, request: pytest.FixtureRequest, **_: Any) -> None:
        background.result(request.node)

    kind = inspect.Parameter.KEYWORD_ONLY
    fixtures = [inspect.Parameter(name, kind) for name in ("background", "request")]
    test.__signature__ = inspect.Signature([*fixtures, *(p.replace(kind=kind) for p in parameters)])
    setattr(test, BODY, body)
    return test


def is_concurrent(item: pytest.Item) -> bool:
    """Whether an item is a concurrent test."""
    return hasattr(getattr(item, "function", None), BODY)


class Loggers(dict[str, Any]):
    """All loggers by name; who walks them walks those that were there when it began."""

    def values(self) -> list[Any]:  # type: ignore[override]  # a list serves who only walks
        """Taken at once, as no thread can come in between."""
        return list(super().values())


class Background:
    """The bodies under way."""

    def __init__(self, items: list[pytest.Item], world: Any, workers: int) -> None:
        """Starts them, `workers` at a time (or as many as TRAINSWEEP_TEST_WORKERS says)."""
        # At each phase of a test pytest (9.2) walks all loggers, and the bodies make new ones meanwhile.
        logging.root.manager.loggerDict = Loggers(logging.root.manager.loggerDict)
        chosen = [i for i in items if is_concurrent(i)]
        waiting = [i for i in chosen if hasattr(i.function, LONG)]
        # The long ones wait for clocks: they take no place from the others.
        self._long = ThreadPoolExecutor(max(1, len(waiting)), thread_name_prefix="long-test")
        self._pool = ThreadPoolExecutor(
            int(os.environ.get("TRAINSWEEP_TEST_WORKERS", workers)), thread_name_prefix="test"
        )
        self._futures: dict[str, Future[None]] = {}
        for item in [*waiting, *(i for i in chosen if i not in waiting)]:
            pool = self._long if item in waiting else self._pool
            given = item.callspec.params if hasattr(item, "callspec") else {}
            self._futures[item.nodeid] = pool.submit(getattr(item.function, BODY), world, **given)

    def result(self, item: pytest.Item) -> None:
        """Waits for a body and raises what it raised."""
        self._futures[item.nodeid].result()

    def close(self) -> None:
        """Starts nothing any more."""
        for pool in (self._long, self._pool):
            pool.shutdown(wait=False, cancel_futures=True)
