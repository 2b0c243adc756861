"""Each story goes as it is written in stories/. After a change that is meant, write them anew and read the difference:

WRITE_STORIES=1 pytest tests/unit/core/test_core_stories.py
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from tests.unit.core.story_parts import STORIES

for _theme in ("good", "ends", "limits", "people", "classes", "between"):
    importlib.import_module(f"tests.unit.core.stories_{_theme}")
FOLDER = Path(__file__).with_name("stories")


@pytest.mark.parametrize("name", STORIES)
def test_it_goes_as_it_is_written(name: str) -> None:
    file, story = FOLDER / f"{name}.txt", STORIES[name]().story
    if os.environ.get("WRITE_STORIES"):
        file.write_text(story, encoding="utf-8")
    assert story == file.read_text(encoding="utf-8")


def test_no_story_is_left_over() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(STORIES)
