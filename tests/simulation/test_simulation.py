"""Some hundred fresh schedules and every one that ever failed; `make simulate` runs ten thousand.

`FROM=k` runs the seeds from k on, `SEEDS=n` so many of them.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.simulation.kept import Kept, from_json, kept, to_json
from tests.simulation.life import Failed, simulate
from tests.simulation.schedule import Schedule, draw
from tests.simulation.shrink import failure, shrunk, smallest

SEEDS = int(os.environ.get("SEEDS") or "250")
BATCH = 25
FIRST = int(os.environ.get("FROM") or random.SystemRandom().randrange(10**9))


def told(schedule: Schedule, failed: Failed) -> str:
    return f"{failed}\n\nseed {schedule.seed}: run `make simulate SEED={schedule.seed}`; shrunk:\n{shrunk(schedule)}"


@pytest.mark.parametrize("batch", range(0, SEEDS, BATCH))
def test_invariants_hold(batch: int) -> None:
    for seed in range(FIRST + batch, FIRST + min(batch + BATCH, SEEDS)):
        try:
            simulate(draw(seed))
        except Failed as failed:
            pytest.fail(told(draw(seed), failed), pytrace=False)


@pytest.mark.parametrize("item", list(kept()), ids=lambda item: item.found.replace(" ", "-")[:60])
def test_what_failed_once_holds(item: Kept) -> None:
    simulate(item.schedule)


def test_same_seed_same_life() -> None:
    assert simulate(draw(11))[1] == simulate(draw(11))[1]


def test_schedule_is_kept_as_it_was() -> None:
    for seed in range(20):
        assert from_json(to_json(draw(seed))) == draw(seed)


def test_shrinking_leaves_what_matters() -> None:
    assert smallest(range(20), lambda items: {3, 17} <= set(items)) == [3, 17]


def test_checks_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decide() that never settles is found out."""
    from trainsweep.core import decide

    def careless(draft: Any, spec: Any) -> None:
        draft.stamp_attempt("settled_at")
        draft.finish(True, "Completed", "trust me")

    monkeypatch.setattr(decide, "settle", careless)
    assert any(failure(draw(seed)) for seed in range(20))
