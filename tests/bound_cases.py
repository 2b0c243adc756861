"""For every bound of a generated schema one value that it must refuse and a neighbour that it must take.

Made from the schema itself, so that a new field cannot be forgotten; only strings with a pattern need an example.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from trainsweep.api.spec import TIME_PATTERN

Schema = dict[str, Any]

_DNS = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


def _repeat(character: str) -> Callable[[int], str]:
    return lambda length: character * length


PATTERNS: dict[str, tuple[Callable[[int], str], str]] = {
    r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)*/?)?$": (
        lambda n: "s3://bucket/"[:n].ljust(n, "a"),
        "s3a://b/p",
    ),
    r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)*/?$": (
        lambda n: "s3://bucket/"[:n].ljust(n, "a"),
        "",
    ),
    r"^(arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+)?$": (
        lambda n: "arn:aws:iam::111122223333:role/".ljust(n, "a"),
        "arn:aws:iam::1111:role/x",
    ),
    r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)+$": (
        lambda n: "s3://buck/".ljust(n, "a"),
        "s3a://bucket/path",
    ),
    r"^[0-9a-f]{64}$": (_repeat("a"), "A" * 64),
    r"^(https?://[^\s/?#@]+)?/?$": (lambda n: "http://".ljust(n, "a"), "ftp://x"),
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$": (_repeat("a"), "-a"),
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$": (_repeat("a"), "-a"),
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$": (_repeat("a"), "a..b"),
    _DNS: (_repeat("a"), "A"),
    r"^[A-Za-z0-9_.-]*$": (_repeat("a"), "a b"),
    r"^[a-z0-9-]*$": (_repeat("a"), "A"),
    r"^\S(.*\S)?$": (_repeat("a"), "a "),
    r"^(\S+)?$": (_repeat("a"), "a b"),
    r"^\S+$": (_repeat("a"), "a b"),
    r"^[^\s/\\#?%:]+$": (_repeat("a"), "a/b"),
    r"^\d+\.\d+\.\d+$": (lambda n: "1.1.".ljust(n, "1"), "2.58"),
    r"^[A-Za-z_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$": (_repeat("a"), "--lr"),
    r"^[A-Za-z_][A-Za-z0-9_]*$": (_repeat("a"), "A-B"),
    r"^([A-Za-z_][A-Za-z0-9_]*)?$": (_repeat("a"), "A-B"),
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$": (
        lambda n: "a:".ljust(n, "a"),
        "a.py",
    ),
    r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$": (_repeat("1"), "lots"),
    r"^(100|[1-9]?[0-9])%$": (lambda n: f"{'9' * (n - 1)}%" if n < 4 else f"{'0' * (n - 4)}100%", "101%"),
    r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|file://)(/[^/?#\s]+)+/?$": (
        lambda n: "file:///"[:n].ljust(n, "a"),
        "s3://bucket",
    ),
    TIME_PATTERN: (
        lambda n: "2027-01-31T18:00:00" + ("Z" if n == 20 else "+00:00".ljust(n - 19, "0")),
        "2027-01-31 18:00",
    ),
}
"""A maker of fitting strings of a length, and one string that does not fit."""

SHORTEST = {
    r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)+$": 12,
    r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)*/?$": 12,
    r"^(arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+)?$": 32,
    r"^(100|[1-9]?[0-9])%$": 2,
    r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|file://)(/[^/?#\s]+)+/?$": 9,
    r"^\d+\.\d+\.\d+$": 5,
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$": 3,
    r"^(s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/?#\s]+)*/?)?$": 12,
    r"^(https?://[^\s/?#@]+)?/?$": 8,
    TIME_PATTERN: 20,
}


@dataclass(frozen=True)
class Bound:
    """One bound: where, which word of the schema, what is refused (None: the key is left out) and what is taken."""

    path: str
    word: str
    refused: Any
    accepted: tuple[Any, ...]
    error_path: str = ""


def nodes(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """All nodes below a schema with concrete paths: the first entry of a list, the key `k` of a map."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from nodes(schema["items"], f"{path}[0]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}.k")


def text(schema: Schema, length: int) -> str:
    """A string of this length that the pattern, if there is one, takes."""
    if "pattern" not in schema:
        return "a" * length
    return PATTERNS[schema["pattern"]][0](length)


def least(schema: Schema, number: int = 0) -> Any:
    """The least value that a schema takes; `number` makes entries of a list differ."""
    kind = schema.get("type")
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date-time":
        return "2026-01-01T00:00:00Z"
    if kind == "string":
        shortest = max(schema.get("minLength", 0), SHORTEST.get(schema.get("pattern", ""), 1))
        return text(schema, shortest + number) if number else text(schema, shortest)
    if kind == "integer":
        return max(schema.get("minimum", 0), 0) + number
    if kind == "number":
        return schema.get("minimum", 0) + 1.0 + number
    if kind == "boolean":
        return True
    if kind == "array":
        return [least(schema["items"], i) for i in range(schema.get("minItems", 0))]
    if kind == "object":
        return {name: least(schema["properties"][name], number) for name in schema.get("required", [])}
    return number + 1


def bounds(schema: Schema, path: str) -> Iterator[Bound]:
    """All bounds of a schema and of what hangs below it."""
    for here, node in nodes(schema, path):
        yield from _of_type(here, node)
        yield from _of_numbers(here, node)
        yield from _of_strings(here, node)
        yield from _of_lists(here, node)
        for name in node.get("required", []):
            yield Bound(f"{here}.{name}", "required", None, (least(node["properties"][name]),))
        if node.get("maxProperties"):
            entry = node.get("additionalProperties") or {}
            top = node["maxProperties"]
            make = lambda n, entry=entry: {f"k{i}": least(entry) for i in range(n)}  # noqa: E731  # one expression, used twice
            yield Bound(here, "maxProperties", make(top + 1), (make(top), make(0)))


WRONG = {"string": 5, "integer": "5", "number": "5", "boolean": "yes", "object": [], "array": {}}


def _of_type(path: str, node: Schema) -> Iterator[Bound]:
    kind = node.get("type")
    if kind is not None:
        yield Bound(path, "type", WRONG[kind], ())
    elif node.get("x-kubernetes-int-or-string"):
        yield Bound(path, "type", 0.5, (1, least({**node, "type": "string"})))
    else:
        for refused in ([1], {"a": 1}):
            yield Bound(path, "scalar", refused, (1, 1.5, "a", True))
        for refused in ([], {}):
            yield Bound(path, "empty", refused, ("",))


def _of_numbers(path: str, node: Schema) -> Iterator[Bound]:
    step = 1 if node.get("type") == "integer" or node.get("x-kubernetes-int-or-string") else 1e-6
    if "minimum" in node:
        low = node["minimum"]
        if node.get("exclusiveMinimum"):
            yield Bound(path, "minimum", low, (low + step,))
        else:
            yield Bound(path, "minimum", low - step, (low,))
    if "maximum" in node:
        yield Bound(path, "maximum", node["maximum"] + step, (node["maximum"],))


def _of_strings(path: str, node: Schema) -> Iterator[Bound]:
    if "enum" in node:
        yield Bound(path, "enum", "Nope", tuple(node["enum"]))
    if node.get("minLength"):
        yield Bound(path, "minLength", "", (least(node),))
    if "maxLength" in node and node.get("format") != "date-time":
        top = node["maxLength"]
        yield Bound(path, "maxLength", text(node, top + 1), (text(node, top),))
    if "pattern" in node:
        yield Bound(path, "pattern", PATTERNS[node["pattern"]][1], (least(node),))


def _of_lists(path: str, node: Schema) -> Iterator[Bound]:
    if node.get("type") != "array":
        return
    entry = node["items"]
    make = lambda n: [least(entry, i) for i in range(n)]  # noqa: E731  # one expression, used twice
    yield Bound(path, "maxItems", make(node["maxItems"] + 1), (make(node["maxItems"]),))
    if node.get("minItems"):
        yield Bound(path, "minItems", make(node["minItems"] - 1), (make(node["minItems"]),))
    if node.get("x-kubernetes-list-type") in ("map", "set"):
        twice = make(2)
        yield Bound(path, "duplicates", [twice[0], twice[1], copy.deepcopy(twice[0])], (twice,), f"{path}[2]")


def place(root: Any, schema: Schema, path: str, value: Any) -> Any:
    """A copy of an object with this value at this path, the least of everything on the way; None removes the key."""
    out = copy.deepcopy(root)
    node, here = out, schema
    parts: list[str | int] = [int(p) if p.isdigit() else p for p in re.findall(r"[^.\[\]]+", path)]
    for i, part in enumerate(parts):
        if isinstance(part, int):
            below = here["items"]
            if not node:
                node.append(least(below))
        else:
            below = here.get("properties", {}).get(part) or here["additionalProperties"]
            if i < len(parts) - 1 and part not in node:
                node[part] = least(below)
        if i == len(parts) - 1:
            if value is None:
                node.pop(part, None)
            else:
                node[part] = value
        else:
            node, here = node[part], below
    return out
