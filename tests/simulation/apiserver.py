"""An API server and its garbage collector in memory: versions, generations, finalizers, preconditions, three deletions.

Objects are never changed in place: whoever holds one holds a snapshot, as a client of a real server does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainsweep.core.times import to_text
from trainsweep.runtime.kube import POD, SWEEP, Conflict, Invalid, Kind, NotFound, Object

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


def merged(target: Any, patch: Any) -> Any:
    """A merge patch, building new maps only along its path."""
    if not isinstance(patch, Mapping):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


class Server:
    """One namespace. `changed(plural, before, after)` is called after every change, also of a removal (after None)."""

    def __init__(self, now: Callable[[], float], changed: Callable[[str, Object | None, Object | None], None]) -> None:
        self._now, self._changed = now, changed
        self._objects: dict[tuple[str, str], Object] = {}
        self._uids = itertools.count(1)
        self.version = self.compacted = 0

    # ------------------------------------------------------------------ reading

    def find(self, kind: Kind, name: str) -> Object | None:
        return self._objects.get((kind.plural, name))

    def get(self, kind: Kind, name: str) -> Object:
        found = self.find(kind, name)
        if found is None:
            raise NotFound(f"{kind.plural} {name!r} not found")
        return found

    def all(self, kind: Kind, **labels: str) -> Iterator[Object]:
        wanted = {k.replace("__", "/").replace("_", "-"): v for k, v in labels.items()}
        for (plural, _), body in list(self._objects.items()):
            if plural == kind.plural and wanted.items() <= (body["metadata"].get("labels") or {}).items():
                yield body

    def selected(self, kind: Kind, selector: str) -> list[Object]:
        wanted = dict(pair.split("=", 1) for pair in selector.split(",") if pair)
        return [
            body
            for (plural, _), body in self._objects.items()
            if plural == kind.plural and wanted.items() <= (body["metadata"].get("labels") or {}).items()
        ]

    def page(self, kind: Kind, selector: str = "", limit: int = 0, token: str = "") -> tuple[list[Object], str]:
        """One page in the order of names; a token whose version was compacted meanwhile is answered with 410."""
        found = sorted(self.selected(kind, selector), key=lambda o: str(o["metadata"]["name"]))
        if token:
            version, _, last = token.partition("/")
            if int(version) < self.compacted:
                raise NotFound("The provided continue parameter is too old")
            found = [o for o in found if o["metadata"]["name"] > last]
        if not limit or len(found) <= limit:
            return found, ""
        page = found[:limit]
        return page, f"{self.version}/{page[-1]['metadata']['name']}"

    def compact(self) -> None:
        """Forgets the past: what refers to it expires."""
        self.compacted = self.version + 1

    # ------------------------------------------------------------------ writing

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        name = body["metadata"]["name"]
        if (kind.plural, name) in self._objects:
            raise Conflict(f"{kind.plural} {name!r} already exists")
        meta = {
            **body["metadata"],
            "namespace": "team",
            "uid": f"{next(self._uids):08x}-0000-4000-8000-000000000000",
            "resourceVersion": self._next(),
            "generation": 1,
            "creationTimestamp": to_text(self._now()),
        }
        made = {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": meta}
        if kind is SWEEP:
            made["status"] = {"observedGeneration": -1}
        self._objects[kind.plural, name] = made
        self._changed(kind.plural, None, made)
        return made

    def patch_status(self, kind: Kind, name: str, status: Mapping[str, Any]) -> Object:
        """A merge patch through the status subresource."""
        before = self.get(kind, name)
        return self._store(kind.plural, before, merged(before, {"status": status}))

    def patch(self, kind: Kind, name: str, patch: Mapping[str, Any]) -> Object:
        """A merge patch of the object; the status is not reached from here."""
        before = self.get(kind, name)
        patch = {k: v for k, v in patch.items() if k != "status"}
        self.check(before, patch.get("metadata") or {})
        after = merged(before, patch)
        if "spec" in patch and after["spec"] != before["spec"]:
            after["metadata"] = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        added = set(after["metadata"].get("finalizers") or ()) - set(before["metadata"].get("finalizers") or ())
        if added and before["metadata"].get("deletionTimestamp"):
            raise Invalid("metadata.finalizers: no new finalizers can be added if the object is being deleted")
        return self._store(kind.plural, before, after)

    def put_status(self, kind: Kind, name: str, body: Mapping[str, Any]) -> Object:
        before = self.get(kind, name)
        if not body["metadata"].get("resourceVersion"):
            raise Invalid("metadata.resourceVersion: must be specified for an update")
        self.check(before, body["metadata"])
        return self._store(kind.plural, before, {**before, "status": body["status"]})

    def delete(self, kind: Kind, name: str, *, uid: str = "", policy: str = "Background") -> None:
        before = self.get(kind, name)
        self.check(before, {"uid": uid})
        meta = dict(before["metadata"])
        finalizers = list(meta.get("finalizers") or ())
        ours = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        if ours is not None and ours not in finalizers:
            finalizers.append(ours)
            meta["finalizers"] = finalizers
        if kind is POD or finalizers:
            if not meta.get("deletionTimestamp"):
                meta["deletionTimestamp"] = to_text(self._now())
                meta["generation"] += 1
            self._store(kind.plural, before, {**before, "metadata": meta})
        else:
            self.remove(kind, name)

    def remove(self, kind: Kind, name: str) -> None:
        """The object is gone: its last finalizer or, for a pod, its node has let it go."""
        before = self._objects.pop((kind.plural, name), None)
        if before is not None:
            self._changed(kind.plural, before, None)

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    @staticmethod
    def check(found: Object, meta: Mapping[str, Any]) -> None:
        for field in ("uid", "resourceVersion"):
            if meta.get(field) and meta[field] != found["metadata"][field]:
                raise Conflict(f"precondition failed: {field}")

    def _store(self, plural: str, before: Object, after: Object) -> Object:
        name = before["metadata"]["name"]
        if {**after, "metadata": {**after["metadata"], "resourceVersion": ""}} == {
            **before,
            "metadata": {**before["metadata"], "resourceVersion": ""},
        }:
            return before
        after = {**after, "metadata": {**after["metadata"], "resourceVersion": self._next()}}
        meta = after["metadata"]
        if meta.get("deletionTimestamp") and not meta.get("finalizers") and plural != POD.plural:
            del self._objects[plural, name]
            self._changed(plural, before, None)
            return after
        self._objects[plural, name] = after
        self._changed(plural, before, after)
        return after

    # ------------------------------------------------------------------ garbage collection

    def collect(self) -> bool:
        """One round of the garbage collector; whether it did something.

        A dependent whose owners are all gone or being deleted in the foreground is deleted; with another owner left,
        the references to those are stripped instead. A foreground deletion ends with the last blocking dependent.
        """
        by_uid = {o["metadata"]["uid"]: o for o in self._objects.values()}
        kinds = {o["kind"]: _kind(o) for o in self._objects.values()}
        busy = False
        for body in list(self._objects.values()):
            if ORPHAN in (body["metadata"].get("finalizers") or ()) and self._alive(body):
                self._orphan(body, kinds)
                busy = True
        for body in list(self._objects.values()):
            meta = body["metadata"]
            refs = meta.get("ownerReferences") or []
            if refs and not meta.get("deletionTimestamp") and self._alive(body):
                busy |= self._collect_one(kinds[body["kind"]], body, refs, by_uid)
        for body in list(self._objects.values()):
            meta = body["metadata"]
            if FOREGROUND in (meta.get("finalizers") or ()) and self._alive(body) and not self._blocked(meta["uid"]):
                left = [f for f in meta["finalizers"] if f != FOREGROUND]
                self._store(kinds[body["kind"]].plural, body, {**body, "metadata": {**meta, "finalizers": left}})
                busy = True
        return busy

    def _orphan(self, owner: Object, kinds: dict[str, Kind]) -> None:
        """Dependents lose their reference to the owner, and then it loses the finalizer."""
        uid = owner["metadata"]["uid"]
        for body in list(self._objects.values()):
            refs = body["metadata"].get("ownerReferences") or []
            left = [ref for ref in refs if ref["uid"] != uid]
            if len(left) < len(refs):
                self._store(kinds[body["kind"]].plural, body, _with(body, ownerReferences=left))
        left = [f for f in owner["metadata"]["finalizers"] if f != ORPHAN]
        self._store(kinds[owner["kind"]].plural, owner, _with(owner, finalizers=left))

    def _alive(self, body: Object) -> bool:
        return self._objects.get((_kind(body).plural, body["metadata"]["name"])) is body

    def _blocked(self, uid: str) -> bool:
        return any(
            ref["uid"] == uid and ref.get("blockOwnerDeletion")
            for o in self._objects.values()
            for ref in o["metadata"].get("ownerReferences") or ()
        )

    def _collect_one(self, kind: Kind, body: Object, refs: list[Object], by_uid: dict[str, Object]) -> bool:
        solid, waiting = [], []
        for ref in refs:
            owner = by_uid.get(ref["uid"])
            if owner is None:
                continue
            (waiting if FOREGROUND in (owner["metadata"].get("finalizers") or ()) else solid).append(ref)
        if len(solid) == len(refs):
            return False
        meta = body["metadata"]
        if solid:
            self._store(kind.plural, body, {**body, "metadata": {**meta, "ownerReferences": solid}})
        else:
            has_dependents = any(
                ref["uid"] == meta["uid"]
                for o in self._objects.values()
                for ref in o["metadata"].get("ownerReferences") or ()
            )
            self.delete(kind, meta["name"], policy="Foreground" if waiting and has_dependents else "Background")
        return True


def _with(body: Object, **meta: Any) -> Object:
    return {**body, "metadata": {**body["metadata"], **meta}}


_KINDS: dict[str, Kind] = {}


def _kind(body: Object) -> Kind:
    if not _KINDS:
        from trainsweep.runtime import kube

        for item in (kube.SWEEP, kube.HOLD, kube.RAY_JOB, kube.RAY_CLUSTER, kube.POD, kube.EVENT, kube.SWEEP_CLASS):
            _KINDS[item.kind] = item
    return _KINDS[body["kind"]]
