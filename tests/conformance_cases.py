"""What an API server does with our objects: the same cases hold for the double of the simulation and for a real one.

A case gets a `Door`; the garbage collector works in its own time, so a case waits for what it does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest

from trainsweep.runtime.kube import HOLD, SWEEP, Conflict, Invalid, Kind, Kube, NotFound, Object

SPEC: dict[str, Any] = {
    "objective": {"metric": "loss", "mode": "Minimize"},
    "search": {"algorithm": {"random": {"seed": 7}}, "parameters": [{"name": "lr", "float": {"min": 0.1, "max": 1}}]},
    "trials": {"count": 4, "maxConcurrent": 2},
    "training": {
        "entrypoint": "train:loop",
        "image": "registry.example/train:1",
        "workers": {"count": 1, "resources": {"cpu": 1, "memory": "1Gi"}},
    },
    "storage": {"uri": "s3://bucket/team"},
    "deadlines": {"runSeconds": 300},
}
NOBODY = "00000000-0000-4000-8000-000000000000"
OURS, MARK = "trainsweep.io/settlement", "conformance"


class Door(Protocol):
    """One API server, one namespace of it."""

    kube: Kube
    namespace: str

    async def delete(self, kind: Kind, name: str, policy: str) -> None:
        """Deletes with a propagation policy."""
        ...

    async def wait(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Lets the garbage collector work until something holds; fails when it does not come."""
        ...


async def make(door: Door, kind: Kind, name: str, **meta: Any) -> Object:
    body: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": door.namespace, **meta},
    }
    if kind is SWEEP:
        body["spec"] = SPEC
    return await door.kube.create(kind, body, door.namespace)


async def get(door: Door, kind: Kind, name: str) -> Object:
    return await door.kube.get(kind, name, door.namespace)


async def patch(door: Door, kind: Kind, name: str, body: dict[str, Any]) -> Object:
    return await door.kube.merge_patch(kind, name, body, door.namespace)


async def there(door: Door, kind: Kind, name: str) -> bool:
    try:
        await get(door, kind, name)
    except NotFound:
        return False
    return True


def owner(body: Object) -> dict[str, Any]:
    meta = body["metadata"]
    said = {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {**said, "blockOwnerDeletion": True}


def status_of(body: Object, **status: Any) -> Object:
    return {**body, "status": {"attempt": 1, **status}}


# ---------------------------------------------------------------------------------------------------- names and versions


async def a_name_is_given_once(door: Door) -> None:
    await make(door, HOLD, "once")
    with pytest.raises(Conflict):
        await make(door, HOLD, "once")


async def what_is_absent_is_not_found(door: Door) -> None:
    gone: tuple[Awaitable[Any], ...] = (
        get(door, HOLD, "nobody"),
        patch(door, HOLD, "nobody", {"metadata": {"labels": {"a": "b"}}}),
        door.kube.delete(HOLD, "nobody", door.namespace),
    )
    for call in gone:
        with pytest.raises(NotFound):
            await call
    made = await make(door, SWEEP, "soon")
    await door.kube.delete(SWEEP, "soon", door.namespace)
    with pytest.raises(NotFound):
        await door.kube.put_status(SWEEP, "soon", status_of(made), door.namespace)


async def a_patch_holds_only_for_the_version_it_names(door: Door) -> None:
    before = await make(door, HOLD, "versions")
    version = before["metadata"]["resourceVersion"]
    after = await patch(door, HOLD, "versions", {"metadata": {"resourceVersion": version, "labels": {"a": "1"}}})
    assert after["metadata"]["resourceVersion"] != version
    with pytest.raises(Conflict):
        await patch(door, HOLD, "versions", {"metadata": {"resourceVersion": version, "labels": {"a": "2"}}})
    with pytest.raises(Conflict):
        await patch(door, HOLD, "versions", {"metadata": {"uid": NOBODY, "labels": {"a": "2"}}})
    assert (await get(door, HOLD, "versions"))["metadata"]["labels"] == {"a": "1"}


async def a_patch_merges_maps_replaces_lists_and_removes_by_null(door: Door) -> None:
    await make(door, SWEEP, "merge", labels={"a": "1", "b": "2"}, finalizers=["example.com/x", "example.com/y"])
    done = await patch(
        door, SWEEP, "merge", {"metadata": {"labels": {"a": None, "c": "3"}, "finalizers": ["example.com/y"]}}
    )
    assert done["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert done["metadata"]["finalizers"] == ["example.com/y"]
    same = await patch(door, SWEEP, "merge", {"metadata": {"labels": {"c": "3"}}})
    assert same["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]
    await patch(door, SWEEP, "merge", {"metadata": {"finalizers": None}})


async def only_a_changed_spec_is_a_new_generation(door: Door) -> None:
    made = await make(door, SWEEP, "generations")
    assert made["metadata"]["generation"] == 1
    marked = await patch(door, SWEEP, "generations", {"metadata": {"labels": {"a": "1"}}})
    assert marked["metadata"]["generation"] == 1
    edited = await patch(door, SWEEP, "generations", {"spec": {"deadlines": {"runSeconds": 400}}})
    assert edited["metadata"]["generation"] == 2
    assert edited["spec"]["deadlines"]["runSeconds"] == 400


async def the_status_has_a_door_of_its_own(door: Door) -> None:
    made = await make(door, SWEEP, "status")
    assert made["status"] == {"observedGeneration": -1}
    with_spec = {**status_of(made), "spec": {**made["spec"], "deadlines": {"runSeconds": 900}}}
    done = await door.kube.put_status(SWEEP, "status", with_spec, door.namespace)
    assert done["status"]["attempt"] == 1
    assert done["spec"] == made["spec"]
    assert done["metadata"]["generation"] == 1
    with pytest.raises(Conflict):
        await door.kube.put_status(SWEEP, "status", status_of(made, attempt=2), door.namespace)
    unversioned = {k: v for k, v in done["metadata"].items() if k != "resourceVersion"}
    with pytest.raises(Invalid):
        await door.kube.put_status(SWEEP, "status", {**status_of(done), "metadata": unversioned}, door.namespace)
    # A patch of the object itself leaves the status alone.
    await patch(door, SWEEP, "status", {"status": {"attempt": 7}})
    assert (await get(door, SWEEP, "status"))["status"]["attempt"] == 1


async def a_list_comes_in_pages_and_by_label(door: Door) -> None:
    for number in range(5):
        await make(door, HOLD, f"page-{number}", labels={MARK: "pages", "odd": str(number % 2)})
    names: list[str] = []
    token, pages = "", 0
    while True:
        found, token = await door.kube.page(HOLD, door.namespace, labels=f"{MARK}=pages", limit=2, token=token)
        names += [o["metadata"]["name"] for o in found]
        pages += 1
        if not token:
            break
    assert names == [f"page-{n}" for n in range(5)]
    assert pages == 3
    odd, _ = await door.kube.page(HOLD, door.namespace, labels=f"{MARK}=pages,odd=1")
    assert [o["metadata"]["name"] for o in odd] == ["page-1", "page-3"]


# ---------------------------------------------------------------------------------------------------- deletion


async def a_delete_holds_only_for_the_object_it_names(door: Door) -> None:
    made = await make(door, HOLD, "named")
    with pytest.raises(Conflict):
        await door.kube.delete(HOLD, "named", door.namespace, uid=NOBODY)
    await door.kube.delete(HOLD, "named", door.namespace, uid=made["metadata"]["uid"])
    assert not await there(door, HOLD, "named")


async def a_finalizer_keeps_and_none_can_be_added_any_more(door: Door) -> None:
    await make(door, SWEEP, "kept", finalizers=[OURS])
    await door.kube.delete(SWEEP, "kept", door.namespace)
    left = await get(door, SWEEP, "kept")
    assert left["metadata"]["deletionTimestamp"]
    assert left["metadata"]["generation"] == 2
    with pytest.raises(Invalid):
        await patch(door, SWEEP, "kept", {"metadata": {"finalizers": [OURS, "example.com/late"]}})
    await door.kube.delete(SWEEP, "kept", door.namespace)
    assert (await get(door, SWEEP, "kept"))["metadata"]["deletionTimestamp"] == left["metadata"]["deletionTimestamp"]
    await patch(door, SWEEP, "kept", {"metadata": {"finalizers": []}})
    assert not await there(door, SWEEP, "kept")


async def _family(door: Door, name: str, **meta: Any) -> tuple[Object, Object]:
    """A sweep with an own dependent and one that a hold owns too."""
    sweep = await make(door, SWEEP, name, **meta)
    hold = await make(door, HOLD, f"{name}-hold")
    await make(door, HOLD, f"{name}-own", ownerReferences=[owner(sweep)])
    await make(door, HOLD, f"{name}-held", ownerReferences=[owner(sweep), owner(hold)])
    return sweep, hold


async def _owners(door: Door, name: str) -> list[str]:
    return [o["name"] for o in (await get(door, HOLD, name))["metadata"].get("ownerReferences", [])]


async def in_the_background_dependents_follow_and_a_second_owner_keeps(door: Door) -> None:
    await _family(door, "back")
    await door.delete(SWEEP, "back", "Background")
    assert not await there(door, SWEEP, "back")

    async def collected() -> bool:
        return not await there(door, HOLD, "back-own") and await _owners(door, "back-held") == ["back-hold"]

    await door.wait(collected)
    await door.delete(HOLD, "back-hold", "Background")

    async def gone() -> bool:
        return not await there(door, HOLD, "back-held")

    await door.wait(gone)


async def what_is_made_for_owners_that_are_gone_is_collected(door: Door) -> None:
    sweep, hold = await make(door, SWEEP, "before"), await make(door, HOLD, "before-hold")
    await door.delete(SWEEP, "before", "Background")
    await door.delete(HOLD, "before-hold", "Background")
    await make(door, HOLD, "after", ownerReferences=[owner(sweep), owner(hold)])

    async def gone() -> bool:
        return not await there(door, HOLD, "after")

    await door.wait(gone)


async def in_the_foreground_dependents_go_first_whatever_our_finalizer_says(door: Door) -> None:
    await _family(door, "fore", finalizers=[OURS])
    await door.delete(SWEEP, "fore", "Foreground")

    async def collected() -> bool:
        return not await there(door, HOLD, "fore-own") and await _owners(door, "fore-held") == ["fore-hold"]

    await door.wait(collected)

    async def only_ours() -> bool:
        return bool((await get(door, SWEEP, "fore"))["metadata"]["finalizers"] == [OURS])

    await door.wait(only_ours)
    await patch(door, SWEEP, "fore", {"metadata": {"finalizers": []}})
    assert not await there(door, SWEEP, "fore")
    assert await there(door, HOLD, "fore-held")


async def orphaned_dependents_stay_and_forget_their_owner(door: Door) -> None:
    await _family(door, "orphan")
    await door.delete(SWEEP, "orphan", "Orphan")

    async def gone() -> bool:
        return not await there(door, SWEEP, "orphan")

    await door.wait(gone)
    assert await _owners(door, "orphan-own") == []
    assert await _owners(door, "orphan-held") == ["orphan-hold"]


CASES: tuple[Callable[[Door], Awaitable[None]], ...] = (
    a_name_is_given_once,
    what_is_absent_is_not_found,
    a_patch_holds_only_for_the_version_it_names,
    a_patch_merges_maps_replaces_lists_and_removes_by_null,
    only_a_changed_spec_is_a_new_generation,
    the_status_has_a_door_of_its_own,
    a_list_comes_in_pages_and_by_label,
    a_delete_holds_only_for_the_object_it_names,
    a_finalizer_keeps_and_none_can_be_added_any_more,
    in_the_background_dependents_follow_and_a_second_owner_keeps,
    what_is_made_for_owners_that_are_gone_is_collected,
    in_the_foreground_dependents_go_first_whatever_our_finalizer_says,
    orphaned_dependents_stay_and_forget_their_owner,
)
