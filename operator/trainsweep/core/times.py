"""Unix seconds to the API's RFC 3339 text and back."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(seconds: float) -> str:
    """RFC 3339 in UTC, whole seconds, as metav1.Time has it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_seconds(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 text; None for None and for what is no time."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
