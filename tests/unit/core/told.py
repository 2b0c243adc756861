"""A stage that tells what each pass did: its actions, Events, every field of the status that changed, and the next look."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.unit.core.core_builders import NOW, Stage, only
from trainsweep.api.status import TrainSweepStatus
from trainsweep.core import model
from trainsweep.core.model import Plan

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass
class Told(Stage):
    """Writes its own story."""

    lines: list[str] = field(default_factory=list)
    whole: bool = False
    """Tells also how its first attempt starts, as all do."""

    def launched(self) -> Told:
        super().launched()
        return self._begun()

    def running(self) -> Told:
        super().running()
        return self._begun()

    def _begun(self) -> Told:
        if not self.whole and self.attempt.number == 1:
            self.lines.clear()
        return self

    def title(self, text: str) -> Told:
        """What happens next, in words."""
        self.lines.append(f"# {text}")
        return self

    def decide(self, after: float = 0.0) -> Plan:
        before = _flat(self.status)
        plan = super().decide(after)
        self.lines.append(f"at {_moment(self.now)}")
        self.lines += [f"  {_action(a)}" for a in plan.actions if not isinstance(a, model.EmitEvent)]
        if plan.status is not None:
            now = _flat(self.status)
            self.lines += [
                f"  {path}: {now.get(path, '(none)')}"
                for path in sorted(before.keys() | now.keys())
                if before.get(path) != now.get(path)
            ]
        self.lines += [f"  event {a.type} {a.reason}: {a.message}" for a in only(plan, model.EmitEvent)]
        if plan.wake_at is not None:
            self.lines.append(f"  looks again at {_moment(plan.wake_at)}")
        return plan

    @property
    def story(self) -> str:
        """All of it."""
        return "\n".join(self.lines) + "\n"


def _moment(at: float) -> str:
    return f"{at - NOW:+.0f}"


def _relative(text: str) -> str:
    """Times as seconds from the beginning."""
    return _TIME.sub(lambda m: _moment(datetime.fromisoformat(m.group()).timestamp()), text)


def _flat(status: TrainSweepStatus) -> dict[str, str]:
    data = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    data["conditions"] = {
        c["type"]: f"{c['status']} {c['reason']} since {c['lastTransitionTime']} {c.get('message', '')}".rstrip()
        for c in data.get("conditions", ())
    }
    data["attempts"] = {str(a["number"]): a for a in data.get("attempts", ())}
    # What is rendered has its own tests.
    return {path: _relative(text) for path, text in _leaves(data) if not path.endswith(".specDigest")}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif value not in ("", [], 0, False):
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _action(action: Any) -> str:
    """Its fields; of a RayJob only its name, its render tests tell the rest."""
    if isinstance(action, model.WriteStatus):
        return "WriteStatus"
    said = {}
    for one in dataclasses.fields(action):
        value = getattr(action, one.name)
        if one.name == "body":
            value = value["metadata"]["name"]
        elif hasattr(value, "model_dump_json"):
            value = value.model_dump_json(by_alias=True, exclude_none=True)
        said[one.name] = _relative(str(value))
    return f"{type(action).__name__}({', '.join(f'{k}={v}' for k, v in said.items())})"
