"""Tests that mostly wait, waiting together: `@concurrent` runs a test's body in the background.

The bodies are plain functions of the world (and of their parameters); pytest then meets each where its turn comes.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

WORKERS = int(os.environ.get("TRAINSWEEP_TEST_WORKERS", "12"))
BODY = "_concurrent_body"


LONG = "_long_body"


def long(test: Callable[..., None]) -> Callable[..., None]:
    """Has a concurrent test started before the others."""
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
    test.__signature__ = inspect.Signature([*fixtures, *(p.replace(kind=kind) for p in parameters)])  # type: ignore[attr-defined]
    setattr(test, BODY, body)
    return test


class Background:
    """The bodies under way."""

    def __init__(self, items: list[pytest.Item], world: Any) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="test")
        self._futures: dict[str, Future[None]] = {}
        chosen = [i for i in items if hasattr(getattr(i, "function", None), BODY)]
        for item in sorted(chosen, key=lambda i: not hasattr(i.function, LONG)):
            given = item.callspec.params if hasattr(item, "callspec") else {}
            self._futures[item.nodeid] = self._pool.submit(getattr(item.function, BODY), world, **given)

    def result(self, item: pytest.Item) -> None:
        """Waits for a body and raises what it raised."""
        self._futures[item.nodeid].result()

    def close(self) -> None:
        """Starts nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)
