"""The second look: damage is found and mended, a forgery is refused, what cannot be read is not called missing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.operator.doubles.driver import Run, Script
from tests.integration.operator.sweeps import condition, sweep
from tests.integration.operator.world import World
from tests.together import concurrent, long
from trainjobs.store import Store
from trainsweep.contract.layout import parse_uri

FILE = "weights.bin"


def best(store: Store, _run: Run) -> str:
    """Key of a file of the owed checkpoint: the second trial's second report is the best."""
    return next(
        e.key for e in store.entries("train") if e.key.startswith("train/t0001") and e.key.endswith(f"2/{FILE}")
    )


def delete(store: Store, run: Run) -> None:
    """The file is gone."""
    store.delete([best(store, run)])


def truncate(store: Store, run: Run) -> None:
    """The file is shorter."""
    key = best(store, run)
    store.put(key, (store.get(key) or b"")[:-7])


def replace(store: Store, run: Run) -> None:
    """The file has as many other bytes."""
    key = best(store, run)
    store.put(key, bytes(255 - b for b in store.get(key) or b""))


DAMAGES: dict[str, tuple[Callable[[Store, Run], None], str]] = {
    "deleted": (delete, "Absent"),
    "truncated": (truncate, "WrongSize"),
    "replaced": (replace, "WrongChecksum"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@concurrent
def test_a_file_damaged_before_the_second_look_is_mended_and_the_sweep_succeeds(world: World, damage: str) -> None:
    harm, problem = DAMAGES[damage]
    body = world.submit(sweep(f"mended-{damage}"), Script(damage=harm))
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    (run,) = world.runs(body)
    assert [v.result for v in run.verdicts] == ["Missing", "Persisted"]
    assert [(m.file, m.problem) for m in run.verdicts[0].missing] == [(FILE, problem)]
    assert done["status"]["checkpoints"]["receiptDigest"] == run.receipts[1]
    assert done["status"]["checkpoints"]["missing"] == []


@pytest.mark.parametrize("damage", DAMAGES)
@concurrent
def test_without_retries_a_damaged_file_ends_the_sweep_and_is_named(world: World, damage: str) -> None:
    harm, problem = DAMAGES[damage]
    body = world.submit(sweep(f"lost-{damage}"), Script(damage=harm, mends=0))
    done = world.ended(body)
    assert condition(done, "Succeeded")["reason"] == "CheckpointsMissing"
    assert FILE in condition(done, "Succeeded")["message"]
    found = condition(done, "CheckpointsVerified")
    assert (found["status"], found["reason"]) == ("False", "FilesMissing")
    assert f"{FILE}: {problem}" in found["message"]


@concurrent
def test_a_missing_file_is_a_warning_where_the_sweep_says_so(world: World) -> None:
    spec = {"checkpoints": {"verify": {"onMissing": "Warn"}}}
    body = world.submit(sweep("warned", **spec), Script(damage=delete, mends=0))
    done = world.ended(body)
    assert condition(done, "CheckpointsVerified")["reason"] == "FilesMissing"
    found = condition(done, "Succeeded")
    assert (found["status"], found["reason"]) == ("True", "CompletedUnverified")
    assert FILE in found["message"]


FORGERIES: dict[str, Callable[[dict[str, Any], Run], dict[str, Any]]] = {
    "foreign-keys": lambda r, _: r | {"owed": [o | {"checkpoint": "../../../team-b/not-yours/c"} for o in r["owed"]]},
    "absolute-keys": lambda r, _: r | {"owed": [o | {"checkpoint": "/trainsweep/team-b/not-yours"} for o in r["owed"]]},
    "other-trial": lambda r, _: r | {"owed": [o | {"checkpoint": "team-b/not-yours"} for o in r["owed"]]},
    "nothing-owed": lambda r, _: r | {"owed": []},
    "other-sweep": lambda r, _: r | {"sweep": r["sweep"] | {"uid": "00000000-0000-0000-0000-000000000000"}},
    "fewer-files": lambda r, _: r | {"owed": [o | {"files": o["files"][:1]} for o in r["owed"]]},
}


@long
@pytest.mark.parametrize("forgery", FORGERIES)
@concurrent
def test_a_forged_receipt_is_refused_and_leads_to_no_request_elsewhere(world: World, forgery: str) -> None:
    spec = {
        "checkpoints": {"verify": {"timeoutSeconds": 10}},
        "failurePolicy": {"attempts": {"application": 0}},
    }
    body = world.submit(sweep(f"forged-{forgery}", **spec), Script(forge=FORGERIES[forgery]))
    seen = world.reaches(body, "CheckpointsVerified", "False", "ReceiptInvalid")
    assert condition(seen, "CheckpointsVerified")["message"]
    (run,) = world.runs(body)
    assert run.verdicts == []
    done = world.ended(body)
    assert condition(done, "Succeeded")["status"] == "False"
    assert condition(done, "CheckpointsVerified")["reason"] == "ReceiptInvalid"
    assert world.store_requests("not-yours") == []


CREDENTIALS = {
    "unknown-key": {"AWS_ACCESS_KEY_ID": "AKIAUNKNOWN", "AWS_SECRET_ACCESS_KEY": "wrong"},
    "wrong-secret": {"AWS_SECRET_ACCESS_KEY": "wrong"},
}


@long
@pytest.mark.parametrize("wrong", CREDENTIALS)
@concurrent
def test_wrong_credentials_are_unknown_and_never_missing(world: World, wrong: str) -> None:
    namespace = world.namespace(f"denied-{wrong}")
    spec = {
        "checkpoints": {"verify": {"timeoutSeconds": 10}},
        "cleanup": {"holdSeconds": 10, "maxHoldSeconds": 25},
    }
    body = world.submit(sweep("denied", namespace, **spec))
    seen: set[tuple[str, str]] = set()
    waits: dict[tuple[str, str], str] = {}

    def probe() -> bool:
        now = world.sweep(body)
        pending = now.get("status", {}).get("pending") or {}
        waits[pending.get("layer", ""), pending.get("reason", "")] = pending.get("message", "")
        found = condition(now, "CheckpointsVerified")
        if found:
            seen.add((found["status"], found["reason"]))
        return condition(now, "Finished").get("status") == "True"

    with world.operator(f"denied-{wrong}", namespace, **CREDENTIALS[wrong]) as operator:
        operator.start()
        world.until(probe, "the sweep ends")
        done = world.ended(body)
    assert ("Unknown", "StoreDenied") in seen
    assert {status for status, _ in seen} == {"Unknown"}
    assert "the class names" in waits["Storage", "StorageCredentials"], waits
    assert condition(done, "Succeeded")["reason"] == "VerificationTimedOut"
    words = condition(done, "CheckpointsVerified")["message"]
    assert "does not know the operator's credentials" in words
    assert "trainsweep" in words


@concurrent
def test_a_right_that_comes_back_within_the_hold_makes_it_a_success(world: World) -> None:
    """Nothing of an unreadable store is held against the sweep."""
    namespace = world.namespace("denied-at-first")
    spec = {
        "checkpoints": {"verify": {"timeoutSeconds": 10}},
        "cleanup": {"holdSeconds": 300, "maxHoldSeconds": 300},
    }
    body = world.submit(sweep("patient", namespace, **spec))
    with world.operator("denied-at-first", namespace) as operator:
        operator.start(**CREDENTIALS["wrong-secret"])
        world.reaches(body, "CheckpointsVerified", "Unknown", "StoreDenied")
        operator.terminate()
        operator.start()
        assert condition(world.ended(body), "Succeeded")["reason"] == "Completed"


def place_of(world: World, store: Store) -> Any:
    """The folder of a run in the store's own file system."""
    location = parse_uri(store.location.uri)
    return world.cluster.instance.state / "s3" / "data" / location.bucket / location.prefix


@long
@concurrent
def test_huge_progress_and_a_deep_receipt_delay_no_other_sweep(world: World) -> None:
    def gigabyte(store: Store) -> None:
        path = place_of(world, store) / "progress.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(1 << 30)

    deep = b'{"owed":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    short = {"checkpoints": {"verify": {"timeoutSeconds": 10}}, "failurePolicy": {"attempts": {"application": 0}}}
    gate = threading.Event()
    huge = world.submit(sweep("hostile-progress", "team-b", **short), Script(raw_progress=gigabyte, hold=gate))
    nested = world.submit(sweep("hostile-receipt", "team-b", **short), Script(raw_receipt=deep))
    world.until(lambda: world.store_requests("hostile-progress"), "the operator has met the huge object")
    beside = world.submit(sweep("beside-hostile", "team-b"))
    done = world.ended(beside)
    assert condition(done, "Succeeded")["reason"] == "Completed"
    (run,) = world.runs(beside)
    assert [v.result for v in run.verdicts] == ["Persisted"]
    gate.set()
    found = condition(world.reaches(nested, "CheckpointsVerified", "False", "ReceiptInvalid"), "CheckpointsVerified")
    assert "nested deeper than 32" in found["message"]
    # The huge heartbeat hides the receipt while the job runs; at its end the receipt is looked at all the same.
    assert condition(world.ended(huge), "CheckpointsVerified")["reason"] == "Verified"
    assert condition(world.ended(nested), "Succeeded")["status"] == "False"
