"""Fields of objects as the API server gives them. Odd input never raises: it reads as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainsweep.core.times import to_seconds

_TEXT = 2048


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a map, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Mapping[str, Any]]:
    """The maps in a list, in order; nothing for anything else."""
    return (
        [i for i in value if isinstance(i, Mapping)]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else []
    )


def text(value: Any, limit: int = _TEXT) -> str:
    """The value where it is text, cut; else ""."""
    return value[:limit] if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """The value where it is an integer; else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def seconds(value: Any) -> float | None:
    """Unix seconds of an RFC 3339 text; None for anything else."""
    return to_seconds(value) if isinstance(value, str) else None


def strings(value: Any) -> dict[str, str]:
    """The pairs of text in a map."""
    return {k: v for k, v in mapping(value).items() if isinstance(k, str) and isinstance(v, str)}


def name_of(body: Any, limit: int = 253) -> str:
    """metadata.name."""
    return text(mapping(mapping(body).get("metadata")).get("name"), limit)


def uid_of(body: Any) -> str:
    """metadata.uid."""
    return text(mapping(mapping(body).get("metadata")).get("uid"), 64)


def condition(body: Any, kind: str) -> Mapping[str, Any] | None:
    """A condition of an object's status, by type."""
    return next(
        (c for c in items(mapping(mapping(body).get("status")).get("conditions")) if c.get("type") == kind), None
    )


def event_time(event: Mapping[str, Any]) -> float:
    """When an Event last happened; 0 where it does not say."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), event.get("firstTimestamp"))
    return next((s for s in map(seconds, times) if s is not None), 0.0)
