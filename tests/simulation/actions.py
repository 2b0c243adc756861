"""What happens to the world and to the sweep: the cluster's accidents, the store's, and what people do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.apiserver import merged
from tests.simulation.driver import OWN_BEHAVIOUR
from tests.simulation.faulty_kube import REFUSALS
from tests.simulation.informer import WATCHED
from tests.simulation.world import World
from trainsweep.api.resolve import SpecError, resolve
from trainsweep.contract import labels
from trainsweep.core.times import to_text
from trainsweep.render.rayjob import rayjob_name
from trainsweep.runtime.kube import HOLD, POD, RAY_CLUSTER, RAY_JOB, SWEEP, SWEEP_CLASS, Object

POLICIES = ("Background", "Foreground", "Orphan")


def _job(world: World) -> Object | None:
    found = [job for job in world.server.all(RAY_JOB) if not job["spec"].get("foreign")]
    return found[-1] if found else None


def _head_lost(world: World) -> None:
    for pod in world.server.selected(POD, "ray.io/node-type=head"):
        if world.rng.random() < 0.5:
            world.server.remove(POD, pod["metadata"]["name"])
            driver = world.driver_on(pod["metadata"]["uid"])
            if driver is not None:
                driver.kill()
        else:
            world.server.delete(POD, pod["metadata"]["name"])


def _head_out_of_memory(world: World) -> None:
    """The kernel kills the head; its pod says so until KubeRay takes it away."""
    for pod in world.server.selected(POD, "ray.io/node-type=head"):
        if pod["status"].get("phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
            continue
        ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": to_text(world.now)}
        killed = {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed"}]}
        killed["containerStatuses"] = [{"name": "ray-head", "state": {"terminated": ended}}]
        world.server.patch_status(POD, pod["metadata"]["name"], killed)
        driver = world.driver_on(pod["metadata"]["uid"])
        if driver is not None:
            driver.kill()


def _job_deleted(world: World) -> None:
    if (job := _job(world)) is not None and not job["metadata"].get("deletionTimestamp"):
        world.server.delete(RAY_JOB, job["metadata"]["name"], policy=world.rng.choice(("Background", "Foreground")))


def _job_orphaned(world: World) -> None:
    """`kubectl delete rayjob --cascade=orphan`: its cluster stays. KubeRay does not always reach the driver to stop it."""
    job = _job(world)
    if job is None or job["metadata"].get("deletionTimestamp"):
        return
    if world.rng.random() < 0.5:
        world.kuberay.unreached.add(job["metadata"]["uid"])
    world.server.delete(RAY_JOB, job["metadata"]["name"], policy="Orphan")


def _cluster_deleted(world: World) -> None:
    for cluster in list(world.server.all(RAY_CLUSTER)):
        world.server.delete(RAY_CLUSTER, cluster["metadata"]["name"])


def _suspended(world: World) -> None:
    job = _job(world)
    if job is None or job["metadata"].get("deletionTimestamp"):
        return
    name = job["metadata"]["name"]
    world.server.patch(RAY_JOB, name, {"spec": {"suspend": True}})

    def resume() -> None:
        if world.server.find(RAY_JOB, name) is not None:
            world.server.patch(RAY_JOB, name, {"spec": {"suspend": False}})

    world.at(world.now + world.rng.uniform(10, 60), resume)


def _invalidated(world: World) -> None:
    if (job := _job(world)) is not None:
        world.kuberay.invalidate(job["metadata"]["name"])


def _stopped(world: World) -> None:
    """Somebody calls the Ray job API."""
    for driver in world.drivers:
        if driver.alive:
            driver.state = "STOPPED"


def _damaged(world: World) -> None:
    world.store.damaged = True


def _store_away(world: World) -> None:
    world.store.unreadable_until = world.now + world.rng.choice((20.0, 90.0, 250.0))


def _store_away_long(world: World) -> None:
    world.store.unreadable_until = world.now + 900.0


def _store_denied(world: World) -> None:
    """The operator's credentials are refused; the driver's are not."""
    world.denied_until = world.now + 700.0


def _kuberay_away(world: World) -> None:
    world.kuberay.down_until = world.now + world.rng.uniform(10, 120)


def _no_nodes(world: World) -> None:
    world.no_nodes_until = world.now + world.rng.choice((60.0, 300.0))


def _no_nodes_for_long(world: World) -> None:
    world.no_nodes_until = world.now + 350.0


def _operator_away(world: World) -> None:
    world.kill_operator(world.rng.choice((20.0, 120.0, 400.0)))


def _hold_deleted(world: World) -> None:
    for hold in list(world.server.all(HOLD)):
        world.server.delete(HOLD, hold["metadata"]["name"])


def _delete(world: World, policy: str) -> None:
    found = world.sweep()
    if found is not None and not found["metadata"].get("deletionTimestamp"):
        world.server.delete(SWEEP, "digits", policy=policy)


def _any_policy(world: World) -> str:
    return str(world.rng.choice(POLICIES))


def _force(world: World) -> None:
    if world.sweep() is not None:
        world.server.patch(SWEEP, "digits", {"metadata": {"annotations": {labels.FORCE_RELEASE: "yes"}}})


def _delete_and_force(world: World) -> None:
    _delete(world, _any_policy(world))
    world.at(world.now + world.rng.uniform(0, 40), lambda: _force(world))


def _edit(world: World) -> None:
    found = world.sweep()
    if found is None:
        return
    change: dict[str, Any] = world.rng.choice(
        (
            {"deadlines": {"runSeconds": world.rng.choice((200, 400))}},
            {"deadlines": {"runSeconds": None}},
            {"deadlines": {"totalSeconds": world.rng.choice((400, 800))}},
            {"failurePolicy": {"attempts": {"application": 3, "infrastructure": 4, "eviction": 12, "startup": 2}}},
            {"training": {"image": f"registry.example/train:{world.rng.randrange(9)}"}},
            {"cleanup": {"deletionGraceSeconds": 250}},
            {"deadlines": {"queuedSeconds": world.rng.choice((None, 60))}},
            {"deadlines": {"stallSeconds": world.rng.choice((None, 60, 120))}},
            {"budget": {"cpuHours": world.rng.choice((None, 0.05, 0.5))}},
        )
    )
    # A limit stays that may be all that ends a driver, of this attempt or of a later one.
    needed = any(world.behave(number).endless for number in OWN_BEHAVIOUR)
    if not (needed and None in change.get("deadlines", {}).values()):
        _patch_spec(world, change)


def _patch_spec(world: World, change: dict[str, Any]) -> None:
    """A person's patch; what the rules of the CRD forbid the API server refuses."""
    found = world.sweep()
    if found is None:
        return
    try:
        resolve(merged(found["spec"], change), None)
    except SpecError:
        return
    world.server.patch(SWEEP, "digits", {"spec": change})


def _false_failed(world: World) -> None:
    if (job := _job(world)) is not None:
        world.kuberay.give_up(job["metadata"]["name"])


def _bad_image(world: World) -> None:
    world.bad_image_until = world.now + 150


def _operator_away_long(world: World) -> None:
    world.kill_operator(430.0)


def _name_taken(world: World) -> None:
    """Somebody has a RayJob under the name of the attempt that is about to be made, for a while."""
    found = world.sweep()
    if found is None:
        return
    meta, number = found["metadata"], (found.get("status") or {}).get("attempt", 0)
    names = [rayjob_name(meta["name"], meta["uid"], n) for n in (number, number + 1) if n > 0]
    world.take(next(n for n in names if n == names[-1] or world.server.find(RAY_JOB, n) is None))


def _names_taken_later(world: World) -> None:
    world.takes_names = True


def _job_replaced(world: World) -> None:
    """Somebody deletes the RayJob and makes one of their own under its name."""
    job = _job(world)
    if job is None or job["metadata"].get("deletionTimestamp") or job["spec"].get("foreign"):
        return
    world.server.delete(RAY_JOB, job["metadata"]["name"])
    world.at(world.now + 1.0, lambda: world.take(job["metadata"]["name"]))


def _deadline_raised(world: World) -> None:
    """Raised in mid-run: the backstop must move before it strikes."""
    found = world.sweep()
    if found is None or not found["spec"]["deadlines"].get("runSeconds"):
        return
    raised = found["spec"]["deadlines"]["runSeconds"] + world.rng.choice((60, 400))
    _patch_spec(world, {"deadlines": {"runSeconds": raised}})


def _budget_raised(world: World) -> None:
    found = world.sweep()
    if found is not None and found["spec"].get("budget"):
        _patch_spec(world, {"budget": {"cpuHours": found["spec"]["budget"]["cpuHours"] * 2}})


def _watch_broken(world: World) -> None:
    kind, seconds, expired = world.rng.choice(WATCHED), world.rng.uniform(5, 200), world.rng.random() < 0.5
    for process in world.processes:
        process.informer.broken(kind, seconds, expired=expired)


def _api_away(world: World) -> None:
    """No call is answered, and every watch breaks."""
    seconds = world.rng.uniform(10, 90)
    world.api_away_until = world.now + seconds
    for process in world.processes:
        for kind in WATCHED:
            process.informer.broken(kind, seconds, expired=world.rng.random() < 0.5)


def _rights_withdrawn(world: World) -> None:
    world.forbidden_until = world.now + world.rng.uniform(10, 60)


def _admission_refuses(world: World) -> None:
    world.refusal = world.rng.choice(REFUSALS)
    world.refuses_until = world.now + world.rng.uniform(20, 90)


def _second_operator(world: World) -> None:
    """Two at the same time, as in a rolling update or by mistake."""
    world.start_process(lives=world.rng.uniform(10, 200))


def _class_changed(world: World) -> None:
    mark = {"example.com/seen": str(world.rng.random())}
    world.server.patch(SWEEP_CLASS, "default", {"metadata": {"annotations": mark}})


def _suspend_sweep(world: World) -> None:
    """A person suspends, and resumes before the faults stop."""
    if world.sweep() is None:
        return
    world.server.patch(SWEEP, "digits", {"spec": {"suspend": True}})

    def resume() -> None:
        if world.sweep() is not None:
            world.server.patch(SWEEP, "digits", {"spec": {"suspend": False}})

    world.at(world.now + world.rng.choice((1.0, 20.0, 90.0)), resume)


def _recreate(world: World) -> None:
    _delete(world, _any_policy(world))

    world.recreating += 1

    def again() -> None:
        found = world.sweep()
        if found is None or not found["metadata"].get("deletionTimestamp"):
            world.recreating -= 1
        if found is None:
            world.apply_sweep()
        elif found["metadata"].get("deletionTimestamp"):
            world.at(world.now + 5, again)

    world.at(world.now + 5, again)


ACTIONS: dict[str, Callable[[World], None]] = {
    "head-lost": _head_lost,
    "rayjob-deleted": _job_deleted,
    "rayjob-orphaned": _job_orphaned,
    "raycluster-deleted": _cluster_deleted,
    "suspended": _suspended,
    "invalidated": _invalidated,
    "stopped-from-outside": _stopped,
    "checkpoint-damaged": _damaged,
    "store-away": _store_away,
    "store-away-long": _store_away_long,
    "store-denied": _store_denied,
    "kuberay-away": _kuberay_away,
    "head-out-of-memory": _head_out_of_memory,
    "no-nodes": _no_nodes,
    "no-nodes-for-long": _no_nodes_for_long,
    "budget-raised": _budget_raised,
    "operator-away": _operator_away,
    "hold-deleted": _hold_deleted,
    "delete-background": lambda world: _delete(world, "Background"),
    "delete-foreground": lambda world: _delete(world, "Foreground"),
    "delete-orphan": lambda world: _delete(world, "Orphan"),
    "deadline-raised": _deadline_raised,
    "false-failed": _false_failed,
    "bad-image": _bad_image,
    "operator-away-long": _operator_away_long,
    "name-taken": _name_taken,
    "names-taken-later": _names_taken_later,
    "rayjob-replaced": _job_replaced,
    "watch-broken": _watch_broken,
    "api-away": _api_away,
    "rights-withdrawn": _rights_withdrawn,
    "admission-refuses": _admission_refuses,
    "second-operator": _second_operator,
    "class-changed": _class_changed,
    "delete-and-force": _delete_and_force,
    "edit": _edit,
    "recreate": _recreate,
    "suspend-sweep": _suspend_sweep,
}
OPERATOR = ("operator-away", "watch-broken", "api-away", "second-operator", "class-changed")
"""What changes the outcome of nothing (I8)."""
PEOPLE = (
    "rayjob-deleted",
    "rayjob-orphaned",
    "rayjob-replaced",
    "name-taken",
    "hold-deleted",
    "delete-background",
    "delete-foreground",
    "delete-orphan",
    "delete-and-force",
    "deadline-raised",
    "edit",
    "edit",
    "recreate",
    "suspend-sweep",
    "suspend-sweep",
)
ENDINGS = ("delete-background", "delete-foreground", "delete-orphan", "delete-and-force", "recreate")
"""After these nothing may be left to do."""
STAGED = ("operator-away-long", "no-nodes-for-long", "budget-raised")
"""Only scenes make use of these."""
CLUSTER = (
    *(name for name in ACTIONS if name not in (*PEOPLE, *OPERATOR, *STAGED)),
    "rayjob-deleted",
    "invalidated",
    "head-lost",
)
