"""Tests whose bodies run in the background do not disturb pytest, which goes on with others meanwhile."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tests.together import Background, concurrent


def makes_a_logger(world: list[str]) -> None:
    """A body: what it imports makes loggers."""
    world.append(logging.getLogger(f"tests.together.{len(world)}").name)


def test_pytest_may_walk_all_loggers_while_a_body_makes_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root.manager, "loggerDict", dict(logging.root.manager.loggerDict))
    world: list[str] = []
    item: Any = SimpleNamespace(nodeid="a", function=concurrent(makes_a_logger))
    background = Background([item], world, workers=1)
    try:
        for _ in logging.root.manager.loggerDict.values():
            makes_a_logger(world)
        background.result(item)
    finally:
        background.close()
    assert set(world) <= logging.root.manager.loggerDict.keys()
    assert len(world) > 1
