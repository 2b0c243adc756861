"""Plain scalars as kubectl reads them, the table that was measured on it."""

from __future__ import annotations

from typing import Any

import pytest

from trainsweep.cli.scalars import ScalarError, key_text, plain, tagged, underflows

TABLE: list[tuple[str, Any]] = [
    ("y", True),
    ("n", False),
    ("Y", True),
    ("N", False),
    ("yes", True),
    ("No", False),
    ("on", True),
    ("OFF", False),
    ("yEs", "yEs"),
    ("~", None),
    ("", None),
    ("Null", None),
    ("nULL", "nULL"),
    ("none", "none"),
    ("1e-5", 1e-5),
    ("1E-5", 1e-5),
    ("1.e-5", 1e-5),
    (".00001", 1e-5),
    ("1_0e-6", 1e-5),
    ("3e6", 3_000_000),
    ("1e+06", 1_000_000),
    ("+1e-3", 1e-3),
    ("1e400", "1e400"),
    ("-1e400", "-1e400"),
    ("0x1p-17", "0x1p-17"),
    ("0o17", 15),
    ("-0o17", -15),
    ("0123", 83),
    ("089", 89),
    ("0x1F", 31),
    ("0X1f", 31),
    ("0b11", 3),
    ("1_000", 1000),
    ("2.60", 2.6),
    ("2.0", 2),
    ("-0.0", 0),
    ("+12", 12),
    ("9007199254740993", 9007199254740993),
    ("18446744073709551615", 18446744073709551615),
    ("18446744073709551616", 18446744073709551616),
    ("1e300", 1e300),
    ("12:30:00", "12:30:00"),
    ("2026-12-24", "2026-12-24"),
    ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
    ("-", "-"),
    ("+", "+"),
    (".", "."),
    ("1.2.3", "1.2.3"),
    ("_1", "_1"),
    (".5_0", ".5_0"),
    ("0x", "0x"),
    ("e5", "e5"),
]


@pytest.mark.parametrize(("text", "value"), TABLE)
def test_E2_E4_E5_plain_scalars(text: str, value: Any) -> None:
    read = plain(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.Inf", "+.INF"])
def test_E2_what_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(ScalarError, match="finite"):
        plain(text)


@pytest.mark.parametrize(
    ("text", "under"),
    [("1e-400", True), ("-1.5e-999", True), ("0e-400", False), ("0.0", False), ("1e-300", False), ("x", False)],
)
def test_E2_underflow_is_seen(text: str, under: bool) -> None:
    assert underflows(text) is under


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [
        ("str", "5", "5"),
        ("int", "0o17", 15),
        ("float", "5", 5),
        ("bool", "yes", True),
        ("null", "", None),
        ("binary", "aGk=", "hi"),
        ("timestamp", "2026-12-24", "2026-12-24"),
    ],
)
def test_explicit_tags(tag: str, text: str, value: Any) -> None:
    assert tagged(f"tag:yaml.org,2002:{tag}", text) == value


@pytest.mark.parametrize(("tag", "text"), [("int", "x"), ("bool", "1"), ("float", "yes"), ("null", "0"), ("set", "x")])
def test_a_tag_that_does_not_fit_is_refused(tag: str, text: str) -> None:
    with pytest.raises(ScalarError):
        tagged(f"tag:yaml.org,2002:{tag}", text)


def test_keys_are_strings_in_json() -> None:
    assert [key_text(plain(t)) for t in ("a", "y", "1", "1.5", "0x10")] == ["a", "true", "1", "1.5", "16"]
    with pytest.raises(ScalarError, match="null is no key"):
        key_text(None)
