"""The name of a unit of work: one sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class SweepKey(NamedTuple):
    """Namespace and name of a TrainSweep; what the work queue holds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def sweep_key(body: Mapping[str, Any]) -> SweepKey | None:
    """The key of a TrainSweep as an event or a list carries it; None where it has no name."""
    meta = body.get("metadata")
    if not isinstance(meta, Mapping):
        return None
    namespace, name = meta.get("namespace"), meta.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str) or not namespace or not name:
        return None
    return SweepKey(namespace, name)


def child_key(body: Mapping[str, Any], label: str) -> SweepKey | None:
    """The key of the sweep that a child's label names; None where it names none.

    Labels, never owner references: the garbage collector strips ours during a foreground delete.
    """
    meta = body.get("metadata")
    labels = meta.get("labels") if isinstance(meta, Mapping) else None
    if not isinstance(meta, Mapping) or not isinstance(labels, Mapping):
        return None
    namespace, name = meta.get("namespace"), labels.get(label)
    if not isinstance(namespace, str) or not isinstance(name, str) or not namespace or not name:
        return None
    return SweepKey(namespace, name)
