"""The kube port in memory: versions, uids, preconditions, finalizers, and faults where a test wants them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainsweep.runtime.kube import Conflict, Kind, NotFound, Object

Fault = Callable[[str, Kind, str], Exception | None]


class FakeKube:
    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.calls: list[tuple[str, str, str]] = []
        self.fault: Fault | None = None
        self.denied: set[tuple[str, str]] = set()
        self.unserved: set[str] = set()
        self.schema_of: Mapping[str, Any] | None = None
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    # ---------------------------------------------------------------- for tests

    def put(self, kind: Kind, name: str, namespace: str = "team-a", **body: Any) -> Object:
        meta = {
            "name": name,
            "namespace": namespace if kind.namespaced else "",
            "uid": f"uid-{next(self._uids)}",
            "resourceVersion": str(next(self._versions)),
            "generation": 1,
            **body.pop("metadata", {}),
        }
        self.objects[self._key(kind, name, namespace)] = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            **body,
        }
        return self.objects[self._key(kind, name, namespace)]

    def find(self, kind: Kind, name: str, namespace: str = "team-a") -> Object | None:
        return self.objects.get(self._key(kind, name, namespace))

    def writes(self) -> list[tuple[str, str, str]]:
        return [c for c in self.calls if c[0] not in ("get", "page")]

    def touch(self, kind: Kind, name: str, namespace: str = "team-a") -> None:
        found = self.objects[self._key(kind, name, namespace)]
        found["metadata"]["resourceVersion"] = str(next(self._versions))

    @staticmethod
    def _key(kind: Kind, name: str, namespace: str) -> tuple[str, str, str]:
        return kind.plural, namespace if kind.namespaced else "", name

    def _enter(self, verb: str, kind: Kind, name: str) -> None:
        self.calls.append((verb, kind.plural, name))
        error = self.fault(verb, kind, name) if self.fault else None
        if error is not None:
            raise error

    def _found(self, kind: Kind, name: str, namespace: str) -> Object:
        found = self.objects.get(self._key(kind, name, namespace))
        if found is None:
            raise NotFound(f"{kind.plural} {name!r} not found")
        return found

    @staticmethod
    def _precondition(found: Object, meta: Mapping[str, Any]) -> None:
        for field in ("uid", "resourceVersion"):
            if meta.get(field) and meta[field] != found["metadata"][field]:
                raise Conflict(f"precondition failed: {field}")

    def _changed(self, kind: Kind, before: Object, after: Object, namespace: str) -> Object:
        key = self._key(kind, after["metadata"]["name"], namespace)
        if after == before:
            return copy.deepcopy(before)
        after["metadata"]["resourceVersion"] = str(next(self._versions))
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self.objects.pop(key, None)
        else:
            self.objects[key] = after
        return copy.deepcopy(after)

    # ---------------------------------------------------------------- the port

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        self._enter("get", kind, name)
        return copy.deepcopy(self._found(kind, name, namespace))

    async def page(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, token: str = ""
    ) -> tuple[list[Object], str]:
        self._enter("page", kind, labels or fields)
        wanted = dict(pair.split("=", 1) for pair in labels.split(",") if pair)
        found = [
            copy.deepcopy(o)
            for (plural, space, _), o in sorted(self.objects.items())
            if plural == kind.plural
            and (not namespace or space == namespace)
            and all((o["metadata"].get("labels") or {}).get(k) == v for k, v in wanted.items())
            and all(_field(o, pair) for pair in fields.split(",") if pair)
        ]
        start = int(token or 0)
        end = start + limit if limit else len(found)
        return found[start:end], str(end) if end < len(found) else ""

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        name = body["metadata"]["name"]
        self._enter("create", kind, name)
        if self._key(kind, name, namespace) in self.objects:
            raise Conflict(f"{kind.plural} {name!r} already exists")
        made = copy.deepcopy(dict(body))
        made["metadata"] = {
            **made["metadata"],
            "namespace": namespace,
            "uid": f"uid-{next(self._uids)}",
            "resourceVersion": str(next(self._versions)),
        }
        self.objects[self._key(kind, name, namespace)] = made
        return copy.deepcopy(made)

    async def merge_patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        self._enter("patch", kind, name)
        found = self._found(kind, name, namespace)
        self._precondition(found, body.get("metadata", {}))
        return self._changed(kind, found, _merge(found, body), namespace)

    async def put_status(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        self._enter("put_status", kind, name)
        found = self._found(kind, name, namespace)
        self._precondition(found, body["metadata"])
        after = {**copy.deepcopy(found), "status": copy.deepcopy(body["status"])}
        return self._changed(kind, found, after, namespace)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        self._enter("delete", kind, name)
        found = self._found(kind, name, namespace)
        self._precondition(found, {"uid": uid})
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = "2026-11-29T00:00:00Z"
        else:
            del self.objects[self._key(kind, name, namespace)]

    async def allowed(self, verb: str, kind: Kind, namespace: str = "", subresource: str = "") -> bool:
        return (verb, f"{kind.plural}/{subresource}" if subresource else kind.plural) not in self.denied

    async def served(self, kinds: Sequence[Kind]) -> list[Kind]:
        self._enter("served", kinds[0], "")
        return [k for k in kinds if k.plural in self.unserved]

    async def schema(self, kind: Kind) -> Mapping[str, Any] | None:
        return self.schema_of


def _field(body: Mapping[str, Any], pair: str) -> bool:
    path, _, wanted = pair.partition("=")
    node: Any = body
    for part in path.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node == wanted


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    out = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = _merge(out.get(key), value)
    return out
