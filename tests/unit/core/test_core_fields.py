"""Foreign objects are read field by field; whatever is there instead of what was expected, nothing raises."""

from __future__ import annotations

from typing import Any

import pytest

from trainsweep.core.fields import event_time, name_of, text, uid_of, whole
from trainsweep.core.pending.situation import _about, cut

AT = "2026-11-29T00:00:00Z"
SECONDS = 1_795_910_400.0


@pytest.mark.parametrize(
    ("event", "at"),
    [
        ({"lastTimestamp": AT}, SECONDS),
        ({"eventTime": AT}, SECONDS),
        ({"lastTimestamp": None, "firstTimestamp": AT}, SECONDS),
        ({}, 0.0),
        ({"lastTimestamp": "soon"}, 0.0),
    ],
)
def test_when_an_event_was(event: dict[str, Any], at: float) -> None:
    assert event_time(event) == at


def test_texts_are_cut_and_other_values_are_none() -> None:
    assert text("x" * 9, 4) == "xxxx"
    assert text("x" * 5000) == "x" * 2048  # what every message of the status may hold
    assert text(None) == text(3) == text({}) == ""
    assert name_of({"metadata": {"name": "n" * 300}}) == "n" * 253
    assert (name_of(None), uid_of({"metadata": []})) == ("", "")
    assert [whole(v) for v in (3, True, "3", None, 3.5)] == [3, None, None, None, None]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("x" * 400, "x" * 400),
        ("x" * 401, "x" * 396 + " ..."),
        ("two\n  lines ", "two lines"),
    ],
)
def test_a_layers_words_become_one_line_of_400_characters_that_shows_where_it_was_cut(words: str, line: str) -> None:
    assert cut(words) == line


@pytest.mark.parametrize(
    ("about", "mine", "said"),
    [
        ({"uid": "u"}, ("u", "Pod", "p"), True),
        ({"uid": "u"}, ("v", "Pod", "p"), False),
        ({"uid": "u", "name": "p"}, ("", "Pod", "p"), False),
        ({"name": "p", "kind": "Pod"}, ("u", "Pod", "p"), True),
        ({"name": "p"}, ("u", "Pod", "p"), True),
        ({"name": "p", "kind": "Node"}, ("u", "Pod", "p"), False),
        ({"name": "p", "kind": "Node"}, ("u", "", "p"), True),
        ({"name": ""}, ("u", "Pod", ""), False),
    ],
)
def test_whom_an_event_is_about(about: dict[str, str], mine: tuple[str, str, str], said: bool) -> None:
    assert _about({"involvedObject": about}, *mine) is said
