"""Each scene brings about what it is played for, and the page is written where it should be."""

from __future__ import annotations

import copy
import random

import pytest

from tests.simulation.driver import Behaviour
from tests.simulation.faults import Odds
from tests.simulation.life import simulate
from tests.simulation.scenes import SCENES
from tests.simulation.schedule import Schedule, draw
from tests.simulation.section import PAGE, replaced
from tests.simulation.world import SPEC
from trainsweep.api.resolve import resolve

RULES = {
    "adopted": "the driver found the run finished by an earlier sweep",
    "backstop": "KubeRay's backstop deadline",
    "bad image": "the pods can never start",
    "budget": "our stop at the end of the budget",
    "calendar": "our stop at the run or total deadline",
    "goal reached": "its receipt says that the goal was reached",
    "hang": "our stop at the stall deadline",
    "head lost": "the head was lost",
    "image without driver": "the image has no driver",
    "lost": "owed checkpoints are missing",
    "no nodes": "our stop at the queued deadline",
    "out of memory": "was killed for memory",
    "silent lost": "its exit code says that owed checkpoints are lost",
    "silent permanent": "its exit code says that no retry helps",
    "stall": "the driver saw that no trial reported any more",
    "store denied": "until the end of the hold nobody could look",
    "store fails the driver": "the driver names a cause that passes",
    "suspension": "our stop for a suspension",
    "too many failed": "too many trials failed",
}
TRIES = 8


def quiet(name: str, number: int) -> Schedule:
    """A life in which only the scene is played."""
    out = Schedule(number, "all", copy.deepcopy(SPEC), Odds(), scene=name)
    out.behaviours = {n: Behaviour() for n in range(1, 6)}
    SCENES[name].play(random.Random(number), out)  # noqa: S311  # a schedule, no secret
    return out


@pytest.mark.parametrize("name", RULES)
def test_scene_reaches_its_rule(name: str) -> None:
    found: set[str] = set()
    for number in range(TRIES):
        found |= set(simulate(quiet(name, number))[0].rules)
        if any(RULES[name] in rule for rule in found):
            return
    pytest.fail(f"{name!r} reaches {sorted(found)} only")


def test_every_schedule_is_one_that_the_api_server_takes() -> None:
    for seed in range(200):
        resolve(draw(seed).spec, None)


def test_page_has_the_sections_of_both_commands() -> None:
    for command in ("make simulate", "make mutants PART=fixed", "make mutants PART=random"):
        page = replaced(PAGE.read_text(), command, "42 of 42")
        assert page.count("42 of 42") == 1
        assert replaced(page, command, "43").count("42 of 42") == 0


def test_page_without_a_section_is_refused() -> None:
    with pytest.raises(ValueError, match="no section"):
        replaced("nothing", "make simulate", "42")
