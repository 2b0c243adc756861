"""One text for one meaning: canonical JSON, configuration hashes and the run's name.

Numbers are canonicalised (`1.0`, `1` and `1e0` are one value), so spelling never changes an identity.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

RUN_FIELDS: tuple[tuple[str, ...], ...] = (
    ("objective",),
    ("search",),
    ("trials", "count"),
    ("trials", "stop"),
    ("training", "entrypoint"),
    ("training", "config"),
    ("runKey",),
)
"""The fields of a spec that name its run. None of them may ever get a schema default: golden vectors hold this."""


def canonical_number(value: float) -> int | str:
    """An integer for whole numbers, else the shortest decimal text that reads back to the same double.

    Raises:
        ValueError: for NaN and infinities, which JSON cannot say.
    """
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        raise ValueError("numbers must be finite")
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return f"{Decimal(repr(value)).normalize():e}"


def _canonical(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        number = canonical_number(value)
        # A number's text must not collide with the same characters written as a string.
        return number if isinstance(number, int) else {"\u0000number": number}
    if isinstance(value, Mapping):
        return {str(k): _canonical(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(v) for v in value]
    raise TypeError(f"{type(value).__name__} is no JSON value")


def canonical_json(value: Any) -> bytes:
    """Canonical bytes of a JSON value: sorted keys, no spaces, canonical numbers, UTF-8."""
    return json.dumps(
        _canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digest(value: Any) -> str:
    """Hex SHA-256 of the canonical bytes."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def config_hash(parameters: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Ten hex characters that name a trial's whole configuration."""
    return digest({"parameters": dict(parameters), "config": dict(config)})[:10]


def run_name(spec: Mapping[str, Any]) -> str:
    """`v1-<hash16>` over what the user wrote in `RUN_FIELDS` of the spec as stored (no defaults filled in)."""
    picked: dict[str, Any] = {}
    for path in RUN_FIELDS:
        node: Any = spec
        for part in path:
            node = node.get(part) if isinstance(node, Mapping) else None
        if node is not None and node != "":
            picked[".".join(path)] = node
    return f"v1-{digest(picked)[:16]}"
