"""Random TrainSweep specs out of the schema itself, so that a new field is fuzzed on the day it appears.

A spec is grown towards one leaf field, then mended where the offline verdict points, except for those that are meant to be
refused: every CEL rule's own refused case is laid over a good spec, and some specs keep whatever is wrong with them.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.bound_cases import SHORTEST, text
from tests.cel_cases import CASES, Key
from tests.unit.api.api_samples import changed
from trainsweep.api.schema import spec_schema
from trainsweep.api.validate import pruned, violations

Schema = Mapping[str, Any]
SCHEMA: dict[str, Any] = spec_schema()
MENDS = 40

CPU_MEMORY = (("cpu", (1, 2, "4")), ("memory", ("1Gi", "8Gi", "512M")), ("nvidia.com/gpu", (1, 2)))
OVERLAYS: tuple[Any, ...] = (
    {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}},
    {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}},
    {"spec": {"affinity": {"nodeAffinity": {}}}},
    {"spec": {"hostNetwork": True}},
    {"spec": {"containers": [{"name": "side", "image": "registry/side"}]}},
    {"metadata": {"labels": {"ray.io/cluster": "x"}}},
    {"spec": "text"},
)
FREE: dict[str, tuple[Any, ...]] = {
    "podTemplate": OVERLAYS,
    "runtimeEnv": ({"pip": ["numpy"]}, {"env_vars": {"A": "b"}}, {"env_vars": {"RAY_ADDRESS": "x"}}, {"nope": 1}),
    "config": ({"epochs": 3}, {"deep": {"list": [1, 2, {"a": None}]}}, {"text": "ü\u2028"}),
}
"""Values for free-form objects by the field's name: good ones, and some that the operator must refuse by itself."""


def leaves(schema: Schema = SCHEMA, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All leaf fields as paths; `[]` is an entry of a list and `{}` of a map."""
    if schema.get("properties"):
        for name, child in schema["properties"].items():
            yield from leaves(child, (*path, name))
    elif isinstance(schema.get("items"), Mapping):
        yield from leaves(schema["items"], (*path, "[]"))
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield from leaves(schema["additionalProperties"], (*path, "{}"))
    else:
        yield path


LEAVES = tuple(leaves())


def at(schema: Schema, path: tuple[str, ...]) -> Schema:
    """The schema of a leaf."""
    for part in path:
        word = {"[]": "items", "{}": "additionalProperties"}.get(part)
        schema = schema[word] if word else schema["properties"][part]
    return schema


def values_at(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """All values of an object at a leaf's path."""
    if not path:
        yield value
    elif path[0] == "[]" and isinstance(value, list):
        for one in value:
            yield from values_at(one, path[1:])
    elif path[0] == "{}" and isinstance(value, Mapping):
        for one in value.values():
            yield from values_at(one, path[1:])
    elif isinstance(value, Mapping) and path[0] in value:
        yield from values_at(value[path[0]], path[1:])


def covered(spec: Any) -> list[tuple[str, ...]]:
    """Leaf fields that a spec sets to something other than the schema's default."""
    found = []
    for leaf in LEAVES:
        default = at(SCHEMA, leaf).get("default")
        if any(v is not None and v != default for v in values_at(spec, leaf)):
            found.append(leaf)
    return found


@dataclass(frozen=True)
class Made:
    """One spec, and what it was made for."""

    spec: dict[str, Any]
    rule: Key | None = None
    """The CEL rule that it must break, if it was made to break one."""


class Generator:
    """Specs from a seed: the same seed, the same specs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311  # a schedule of tests, no secret
        self.rules = sorted(CASES)
        self.count = self.broken = 0
        self.seen: Counter[tuple[str, ...]] = Counter()

    def make(self) -> Made:
        """The next spec: some 60 % meant to be taken, 25 % left as they grew, 15 % to break one rule."""
        self.count += 1
        kind = self.rng.random()
        if kind < 0.15:
            self.broken += 1
            key = self.rules[self.broken % len(self.rules)]
            return Made(changed(self.rng.choice(CASES[key].refused)), key)
        # Half of them go for the field that was admitted least so far: some fields are refused with most others.
        scarce = min(LEAVES, key=lambda leaf: (self.seen[leaf], leaf))
        leaf = scarce if self.rng.random() < 0.5 else LEAVES[self.count % len(LEAVES)]
        spec = self.grow(leaf)
        return Made(self.mend(spec, leaf) if kind < 0.75 else spec)

    def learn(self, fields: list[tuple[str, ...]]) -> None:
        """Takes note of the fields of a spec that was admitted."""
        self.seen.update(fields)

    # ------------------------------------------------------------------ growing

    def grow(self, leaf: tuple[str, ...]) -> dict[str, Any]:
        """A spec with this leaf and others by chance."""
        out = self._value(SCHEMA, leaf, "", 0.12)
        assert isinstance(out, dict)
        return out

    def _value(self, schema: Schema, leaf: tuple[str, ...] | None, name: str, chance: float) -> Any:
        kind = schema.get("type")
        if schema.get("properties"):
            return self._object(schema, leaf, chance)
        if kind == "array":
            return self._list(schema, leaf, name, chance)
        if isinstance(schema.get("additionalProperties"), Mapping):
            return self._map(schema, name)
        if kind == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
            return {}
        if kind == "object":
            return copy.deepcopy(self.rng.choice(FREE.get(name, ({}, {"a": 1}))))
        return self._scalar(schema)

    def _object(self, schema: Schema, leaf: tuple[str, ...] | None, chance: float) -> dict[str, Any]:
        wanted = leaf[0] if leaf else None
        required = schema.get("required", [])
        out = {}
        for name, child in schema["properties"].items():
            if name == wanted:
                out[name] = self._value(child, leaf[1:] if leaf else None, name, chance)
            elif name in required or self.rng.random() < chance:
                out[name] = self._value(child, None, name, chance)
        return out

    def _list(self, schema: Schema, leaf: tuple[str, ...] | None, name: str, chance: float) -> list[Any]:
        low = max(schema.get("minItems", 0), 1 if leaf else 0)
        count = self.rng.randint(low, max(low, min(schema.get("maxItems", 3), 3)))
        inner = leaf[1:] if leaf and leaf[0] == "[]" else None
        items = [self._value(schema["items"], inner if i == 0 else None, name, chance) for i in range(count)]
        keys = schema.get("x-kubernetes-list-map-keys", [])
        unique = {tuple(str(x.get(k)) for k in keys) if keys else str(x): x for x in items}
        return list(unique.values())

    def _map(self, schema: Schema, name: str) -> dict[str, Any]:
        if name in ("resources",):
            return {k: self.rng.choice(v) for k, v in CPU_MEMORY if self.rng.random() < 0.7}
        keys = ("lr", "width", "team", "zone")
        return {k: self._value(schema["additionalProperties"], None, "", 0) for k in keys if self.rng.random() < 0.5}

    def _scalar(self, schema: Schema) -> Any:
        rng, kind = self.rng, schema.get("type")
        if "enum" in schema:
            return rng.choice(schema["enum"])
        if schema.get("format") == "date-time":
            return f"20{rng.randint(27, 60)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}T0{rng.randint(0, 9)}:00:00Z"
        if kind == "boolean":
            return rng.random() < 0.7
        if kind == "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1000)
            return rng.choice((low, high, rng.randint(low, min(high, low + 100)), rng.randint(low, high)))
        if kind == "number":
            low, high = schema.get("minimum", -10.0), schema.get("maximum", 10.0)
            return rng.choice((rng.uniform(low, high), float(rng.randint(1, 9)), 10.0 ** rng.randint(-6, 0)))
        if kind == "string":
            least = max(schema.get("minLength", 0), SHORTEST.get(schema.get("pattern", ""), 1))
            most = schema.get("maxLength", least + 8)
            return text(schema, rng.choice((least, min(most, least + rng.randint(0, 12)), most)))
        return rng.choice((1, 2.5, "text", True))

    # ------------------------------------------------------------------ mending

    def mend(self, spec: dict[str, Any], leaf: tuple[str, ...]) -> dict[str, Any]:
        """Makes anew what the offline verdict refuses, or leaves it out; gives up after a while and leaves it wrong."""
        for turn in range(MENDS):
            problems = violations(pruned(spec, SCHEMA), SCHEMA)
            if not problems:
                break
            path = problems[0][0].removeprefix("spec").removeprefix(".")
            self._remake(spec, path, leaf if turn < MENDS // 2 else None)
        return spec

    def _remake(self, spec: dict[str, Any], path: str, leaf: tuple[str, ...] | None) -> None:
        """Another value for the object around a path (its parent, to change what a rule compares)."""
        parts = _parts(path)
        parent = parts[: max(1, len(parts) - self.rng.choice((0, 1, 1, 2)))]
        schema: Schema = SCHEMA
        rest = leaf
        for part in parent:
            if isinstance(part, int):
                schema = schema["items"]
                rest = rest[1:] if rest and rest[0] == "[]" else None
            else:
                schema = schema.get("properties", {}).get(part) or schema.get("additionalProperties") or {}
                rest = rest[1:] if rest and rest[0] in (part, "{}") else None
        if not isinstance(schema, Mapping) or not schema:
            return
        name = next((p for p in reversed(parent) if isinstance(p, str)), "")
        fresh = self._value(schema, rest, name, 0.3) if self.rng.random() < 0.8 or rest else None
        _place(spec, parent, fresh)


def _place(spec: Any, path: list[str | int], value: Any) -> None:
    """Sets a value at a path, or removes it (None); a way that is not there is left alone."""
    for part in path[:-1]:
        try:
            spec = spec[part]
        except (KeyError, IndexError, TypeError):
            return
    last = path[-1]
    if isinstance(spec, list) and isinstance(last, int) and last < len(spec):
        if value is None:
            del spec[last]
        else:
            spec[last] = value
    elif isinstance(spec, dict) and isinstance(last, str):
        spec.pop(last, None) if value is None else spec.update({last: value})


def _parts(path: str) -> list[str | int]:
    out: list[str | int] = []
    for word in path.replace("[", ".[").split("."):
        if word.startswith("["):
            inner = word.strip("[]")
            out.append(int(inner) if inner.isdigit() else inner)
        elif word:
            out.append(word)
    return out
