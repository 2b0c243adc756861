"""The API server's verdict without an API server: a value against one of our structural schemas, CEL rules included.

Same schemas, same rule texts, more words: each message says what to write instead. Rules over `oldSelf` need a stored
object and are left to the API server.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]
Problem = tuple[str, str]

VALIDATIONS = "x-kubernetes-validations"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_MAX_SHOWN = 64
MAX_DEPTH = 32
MAX_PATH = 256


def violations(value: Any, schema: Schema, path: str = "spec") -> list[Problem]:
    """All that the API server would refuse, as (field path, message) pairs in the order of the file."""
    value = pruned(value, schema)
    problems = _node(value, schema, path)
    if not problems:
        problems += _rules(value, schema, path)
    return problems


def pruned(value: Any, schema: Schema) -> Any:
    """The value as it is stored: the API server drops keys that are null, except within free-form objects."""
    if isinstance(value, Mapping):
        known, entries = schema.get("properties", {}), schema.get("additionalProperties")
        out = {}
        for name, child in value.items():
            below = known.get(name, entries)
            if not isinstance(below, Mapping):
                out[name] = child
            elif child is not None:
                out[name] = pruned(child, below)
        return out
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [pruned(child, schema["items"]) for child in value]
    return value


def shown(value: Any) -> str:
    """A value as YAML would have it, cut to a readable length."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a map"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


@functools.lru_cache(maxsize=256)
def pattern(text: str) -> re.Pattern[str]:
    """A pattern as RE2 reads it: `$` is the very end, classes for digits and spaces are ASCII."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", text), re.ASCII)


def _node(value: Any, schema: Schema, path: str) -> list[Problem]:
    if value is None:
        return [(path, "must not be null: give it a value or remove the key")]
    kind = schema.get("type")
    problem = _type_problem(value, schema, kind)
    if problem:
        return [(path, problem)]
    if kind == "object":
        return _object(value, schema, path)
    if kind == "array":
        return _array(value, schema, path)
    return [(path, message) for message in _scalar(value, schema)]


def _type_problem(value: Any, schema: Schema, kind: str | None) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if kind == "object":
        return None if isinstance(value, Mapping) else f"must be a map, got {shown(value)}"
    if kind == "array":
        return None if isinstance(value, list) else f"must be a list, got {shown(value)}"
    if kind == "string":
        return None if isinstance(value, str) else f"must be a string, got {shown(value)}: quote it"
    if kind == "boolean":
        return None if isinstance(value, bool) else f"must be true or false, got {shown(value)}{_unquote(value, kind)}"
    if kind == "integer" or kind == "number":
        return _number_problem(value, kind)
    if schema.get(INT_OR_STRING):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole or isinstance(value, str) or (isinstance(value, float) and value.is_integer()):
            return None
        fraction = isinstance(value, float)
        return f"must be an integer or a string, got {shown(value)}" + (": quote it" if fraction else "")
    if isinstance(value, (Mapping, list)):
        return f"must be a string, a number or a boolean, got {shown(value)}"
    return None


def _number_problem(value: Any, kind: str) -> str | None:
    what = "a whole number" if kind == "integer" else "a number"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"must be {what}, got {shown(value)}{_unquote(value, kind)}"
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        return f"must be {what}, got {shown(value)}"
    return None


def _unquote(value: Any, kind: str) -> str:
    if not isinstance(value, str):
        return ""
    fits = value in ("true", "false") if kind == "boolean" else _NUMBER.fullmatch(value) is not None
    return ": remove the quotes" if fits else ""


def same(one: Any, other: Any) -> bool:
    """Whether two scalars are one value: 1 and 1.0 are, 1 and true are not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _object(value: Mapping[str, Any], schema: Schema, path: str) -> list[Problem]:
    problems: list[Problem] = []
    properties, entries = schema.get("properties", {}), schema.get("additionalProperties")
    if len(value) > schema.get("maxProperties", math.inf):
        problems.append((path, f"has {len(value)} keys, at most {schema['maxProperties']} are possible"))
    problems += [(f"{path}.{name}", "is required") for name in schema.get("required", []) if name not in value]
    for name, child in value.items():
        here = f"{path}.{name}"
        if name in properties:
            problems += _node(child, properties[name], here)
        elif isinstance(entries, Mapping):
            problems += _node(child, entries, here)
        elif not schema.get(PRESERVE):
            problems.append((here, _unknown(here, name, list(properties))))
        else:
            problems += _free(child, here)
    return problems


def _free(value: Any, path: str, depth: int = 1) -> list[Problem]:
    """Inside a free-form object all goes that JSON can say, but not too deep: API servers take thousands of levels."""
    if isinstance(value, float) and not math.isfinite(value):
        return [(path, "must be a finite number")]
    if not isinstance(value, (Mapping, list)):
        return []
    if depth > MAX_DEPTH:
        # The path would be as long as the nesting is deep.
        return [(path[:MAX_PATH], f"is nested deeper than {MAX_DEPTH} levels")]
    entries = value.items() if isinstance(value, Mapping) else enumerate(value)
    found: list[Problem] = []
    for key, child in entries:
        found += _free(child, f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}", depth + 1)
    return found


NOT_POSSIBLE = {
    "spec.trials.earlyStopping.pbt": "population based training is not possible, as no trial can go on from another's "
    "checkpoint: use asha, hyperband or median",
    "spec.trials.earlyStopping.bohb": "use search.algorithm tpe together with earlyStopping.hyperband",
    "spec.search.parameters.when": "there are no conditional parameters: let the loop ignore what does not apply, or "
    "run one sweep a branch",
}
"""What people ask for and what to do instead; list positions left out of the path."""


def _unknown(here: str, name: str, known: list[str]) -> str:
    text = f'unknown field "{here}"'
    if advice := NOT_POSSIBLE.get(re.sub(r"\[\d+\]", "", here)):
        return f"{text}: {advice}"
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return f'{text}: did you mean "{near[0]}"?'
    return f"{text}: known here are {', '.join(known)}" if known else f"{text}: nothing may stand here"


def _array(value: list[Any], schema: Schema, path: str) -> list[Problem]:
    problems: list[Problem] = []
    if len(value) > schema.get("maxItems", math.inf):
        problems.append((path, f"has {len(value)} entries, at most {schema['maxItems']} are possible"))
    if len(value) < schema.get("minItems", 0):
        problems.append((path, f"has {len(value)} entries, at least {schema['minItems']} are needed"))
    for i, child in enumerate(value):
        problems += _node(child, schema["items"], f"{path}[{i}]")
    if schema.get("x-kubernetes-list-type") == "map" and not problems:
        keys = schema["x-kubernetes-list-map-keys"]
        seen: dict[tuple[Any, ...], int] = {}
        for i, child in enumerate(value):
            key = tuple(child.get(k) for k in keys)
            if key in seen:
                text = f"is there twice: {shown(key[0])} stands at {path}[{seen[key]}] already"
                problems.append((f"{path}[{i}].{keys[0]}", text))
            seen.setdefault(key, i)
    return problems


def _scalar(value: Any, schema: Schema) -> list[str]:
    found = []
    if "enum" in schema and value not in schema["enum"]:
        words = ", ".join(word or '""' for word in schema["enum"])
        found.append(f"must be one of {words}; got {shown(value)}")
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", math.inf):
            found.append(f"has {len(value)} characters, at most {schema['maxLength']} are possible")
        if len(value) < schema.get("minLength", 0):
            found.append("must not be empty")
        elif "pattern" in schema and not pattern(schema["pattern"]).search(value):
            found.append(
                f"{shown(value)} does not fit the pattern {schema['pattern']} ({schema.get('description', '')})"
            )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
            found.append(
                f"must be {'above' if schema.get('exclusiveMinimum') else 'at least'} {low}, got {shown(value)}"
            )
        if high is not None and value > high:
            found.append(f"must be at most {high}, got {shown(value)}")
    return found


@functools.lru_cache(maxsize=512)
def _program(rule: str) -> Any:
    import cel  # a quarter of a second: only when there is something to check

    return cel.compile(rule)


def _typed(value: Any, schema: Schema) -> Any:
    """The value with the types that the API server gives to CEL: a `number` is a double there, also a whole one."""
    kind = schema.get("type")
    if kind == "number":
        return float(value)
    if kind == "integer":
        return int(value)
    if schema.get(PRESERVE):
        # CEL sees nothing of what has no schema, on the API server neither; and it knows no integer beyond 64 bits.
        return {} if kind == "object" else 0
    if kind == "array":
        return [_typed(child, schema["items"]) for child in value]
    if isinstance(value, Mapping):
        known, entries = schema.get("properties", {}), schema.get("additionalProperties") or {}
        return {k: _typed(child, known.get(k, entries)) for k, child in value.items()}
    return value


def _rules(value: Any, schema: Schema, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for rule in schema.get(VALIDATIONS, []):
        if "oldSelf" in rule["rule"]:
            continue
        if not _program(rule["rule"]).execute({"self": _typed(value, schema)}):
            problems.append((path + rule.get("fieldPath", ""), rule["message"]))
    if isinstance(value, Mapping):
        known, entries = schema.get("properties", {}), schema.get("additionalProperties")
        for name, child in value.items():
            below = known.get(name, entries)
            if isinstance(below, Mapping):
                problems += _rules(child, below, f"{path}.{name}")
    elif isinstance(value, list):
        for i, child in enumerate(value):
            problems += _rules(child, schema["items"], f"{path}[{i}]")
    return problems
