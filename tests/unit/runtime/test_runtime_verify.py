from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.runtime.faults import answer, watch
from tests.unit.runtime.runs import ATTEMPT, HASH, Run, entry, target
from trainsweep.api.workload import Depth, Require
from trainsweep.contract.documents import Outcome
from trainsweep.core.model import Proof, Settlement
from trainsweep.runtime import store_s3
from trainsweep.runtime.inventory import look
from trainsweep.runtime.verify import Meter, bounded, in_thread

BEST = f"train/t2-{HASH}/checkpoint_1"
MODEL = f"{BEST}/model.pt"


async def no_sleep(_: float) -> None:
    return None


def fill(run: Run) -> None:
    run.trial(1, [0.5, 0.7])
    run.trial(2, [0.9, 0.8])
    run.trial(3, [0.6], "Running")


async def see(run: Run, digest: str = "", **options: Any) -> Settlement:
    wanted = options.pop("target", target())
    return await look(run.store, wanted, digest=digest, run=in_thread, sleep=no_sleep, **options)


async def test_an_honest_receipt_is_proven(run: Run) -> None:
    fill(run)
    digest = run.settle(run.receipt())
    meter = Meter()
    found = await see(run, digest, meter=meter)
    files = run.files[BEST]
    assert (found.proof, found.message, found.digest) == (Proof.PERSISTED, "", digest)
    assert (found.source, found.required, found.verified, found.files) == ("Receipt", 1, 1, len(files))
    assert found.bytes == sum(map(len, files.values()))
    assert found.outcome is Outcome.COMPLETED
    assert found.receipt_uri.endswith(f"attempts/{ATTEMPT}/receipt.json")
    assert (await see(run)).digest == digest


@pytest.mark.parametrize(
    ("depth", "damage", "problem"),
    [
        (Depth.CHECKSUMS, "delete", "Absent"),
        (Depth.CHECKSUMS, "truncate", "WrongSize"),
        (Depth.CHECKSUMS, "replace", "WrongChecksum"),
        (Depth.SIZES, "delete", "Absent"),
        (Depth.SIZES, "truncate", "WrongSize"),
        (Depth.SIZES, "replace", ""),
        (Depth.LISTING, "delete", "Absent"),
        (Depth.LISTING, "truncate", ""),
    ],
)
async def test_damage_is_named_as_deep_as_was_asked(run: Run, depth: Depth, damage: str, problem: str) -> None:
    fill(run)
    digest = run.settle(run.receipt())
    data = run.files[BEST]["model.pt"]
    match damage:
        case "delete":
            run.delete(MODEL)
        case "truncate":
            run.put(MODEL, data[:-1])
        case "replace":
            run.put(MODEL, b"Z" + data[1:])
    found = await see(run, digest, target=target(depth=depth))
    assert found.proof is (Proof.MISSING if problem else Proof.PERSISTED)
    assert [(m.trial, m.checkpoint, m.file, m.problem) for m in found.missing] == (
        [("t2", BEST, "model.pt", problem)] if problem else []
    )
    if problem:
        assert (found.verified, found.required) == (0, 1)
        assert "model.pt" in found.message


async def test_a_damaged_manifest_is_damage_not_a_bad_receipt(run: Run) -> None:
    fill(run)
    digest = run.settle(run.receipt())
    data = run.files[BEST]["trainsweep-manifest.json"]
    run.put(f"{BEST}/trainsweep-manifest.json", b"Z" * len(data))
    found = await see(run, digest)
    assert (found.proof, found.missing[0].problem) == (Proof.MISSING, "WrongChecksum")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sweep": {"namespace": "team-b", "name": "digits", "uid": "u", "run": "v1-0123456789abcdef"}}, "namespace"),
        ({"sweep": {"namespace": "team-a", "name": "digits", "uid": "foreign", "run": "v1-0123456789abcdef"}}, "uid"),
        ({"attemptId": "2-0b0e6c1e"}, "attemptId"),
        ({"metric": "loss"}, "metric"),
        ({"mode": "Minimize"}, "mode"),
        ({"owed": []}, "leaves out"),
        ({"contractVersion": 9}, "contract version"),
    ],
)
async def test_a_receipt_that_is_not_ours_or_owes_less_is_invalid(
    file_run: Run, changes: dict[str, Any], words: str
) -> None:
    fill(file_run)
    digest = file_run.settle(file_run.receipt(**changes))
    found = await see(file_run, digest)
    assert (found.proof, found.digest) == (Proof.INVALID, digest)
    assert words in found.message


async def test_a_receipt_that_owes_another_checkpoint_is_invalid(file_run: Run) -> None:
    fill(file_run)
    receipt = file_run.receipt()
    worse = f"train/t1-{HASH}/checkpoint_1"
    receipt["owed"].append({"trial": "t1", "step": 1, "checkpoint": worse, "files": [entry("x", b"")]})
    found = await see(file_run, file_run.settle(receipt))
    assert (found.proof, f"owes {worse}" in found.message) == (Proof.INVALID, True)
    receipt = file_run.receipt()
    receipt["owed"][0]["value"] = 0.99
    assert "value 0.99" in (await see(file_run, file_run.settle(receipt))).message


async def test_a_receipt_that_hides_a_file_of_the_manifest_is_invalid(run: Run) -> None:
    fill(run)
    receipt = run.receipt()
    receipt["owed"][0]["files"] = [f for f in receipt["owed"][0]["files"] if f["path"] != "model.pt"]
    digest = run.settle(receipt)
    run.delete(MODEL)
    found = await see(run, digest)
    assert (found.proof, "model.pt" in found.message) == (Proof.INVALID, True)


@pytest.mark.parametrize("path", ["../../team-b/secret", "/etc/passwd", "a/../../../x"])
async def test_forged_keys_reach_no_other_place(s3_run: Run, path: str) -> None:
    fill(s3_run)
    receipt = s3_run.receipt()
    receipt["owed"][0]["files"].append({"path": path, "size": 1})
    digest = s3_run.settle(receipt)
    prefix = s3_run.store.location.prefix
    seen = watch(s3_run.store)
    found = await see(s3_run, digest)
    assert found.proof is Proof.INVALID
    assert seen
    assert all(prefix in r.url.replace("%2F", "/") for r in seen)


@pytest.mark.parametrize(
    "receipt",
    [b"[" * 10_000, b"", b"null", b"x" * (8 * 1024 * 1024 + 1), b'{"owed":' + b"[" * 100_000],
    ids=["deep", "empty", "null", "huge", "deep-owed"],
)
async def test_a_hostile_receipt_is_invalid_and_quick(file_run: Run, receipt: bytes) -> None:
    fill(file_run)
    digest = file_run.settle(receipt)
    async with asyncio.timeout(5):
        found = await see(file_run, digest)
    assert (found.proof, found.digest) == (Proof.INVALID, digest)


async def test_another_digest_than_announced_is_unknown_until_the_next_heartbeat(file_run: Run) -> None:
    fill(file_run)
    file_run.settle(file_run.receipt())
    found = await see(file_run, "0" * 64)
    assert (found.proof, found.reason, found.digest) == (Proof.UNKNOWN, "ReceiptChanged", "0" * 64)


async def test_an_announced_receipt_that_is_not_there_is_invalid(file_run: Run) -> None:
    fill(file_run)
    assert (await see(file_run, "0" * 64)).proof is Proof.INVALID


@pytest.mark.parametrize(("status", "code", "denied"), [(403, "AccessDenied", True), (503, "SlowDown", False)])
async def test_a_store_that_refuses_proves_nothing(s3_run: Run, status: int, code: str, denied: bool) -> None:
    fill(s3_run)
    digest = s3_run.settle(s3_run.receipt())
    answer(s3_run.store, status, code, "words")
    found = await see(s3_run, digest, inventory=True)
    assert (found.proof, found.denied, found.missing) == (Proof.UNKNOWN, denied, ())


async def test_a_403_on_one_owed_file_is_unknown_never_missing(s3_run: Run) -> None:
    fill(s3_run)
    digest = s3_run.settle(s3_run.receipt())
    answer(s3_run.store, 403, only="model.pt")
    found = await see(s3_run, digest)
    assert (found.proof, found.denied, found.missing) == (Proof.UNKNOWN, True, ())


async def test_a_file_that_is_still_being_uploaded_is_unknown_not_missing(
    s3_run: Run, bucket: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(s3_run)
    digest = s3_run.settle(s3_run.receipt())
    s3_run.delete(MODEL)
    client, name = bucket
    client.create_multipart_upload(Bucket=name, Key=f"{s3_run.store.location.prefix}/{MODEL}")
    # The double says of every upload that it was begun in 2010.
    assert (await see(s3_run, digest)).proof is Proof.MISSING
    monkeypatch.setattr(store_s3, "ABANDONED_SECONDS", 10**10)
    found = await see(s3_run, digest)
    assert (found.proof, found.denied, "still being uploaded" in found.message) == (Proof.UNKNOWN, False, True)


async def test_nothing_owed_needs_no_proof(file_run: Run) -> None:
    file_run.trial(1, [], "Failed")
    found = await see(file_run, file_run.settle(file_run.receipt()))
    assert (found.proof, found.required) == (Proof.PERSISTED, 0)


@pytest.mark.parametrize(
    ("require", "owed"), [(Require.ALL_SUCCEEDED, 2), (Require.ALL_REPORTED, 3), (Require.NONE, 0)]
)
async def test_every_policy_is_derived_anew(file_run: Run, require: Require, owed: int) -> None:
    fill(file_run)
    digest = file_run.settle(file_run.receipt(require))
    found = await see(file_run, digest, target=target(require))
    assert (found.proof, found.required, found.verified) == (Proof.PERSISTED, owed, owed)


async def test_a_stopped_sweep_owes_what_can_be_resumed(file_run: Run) -> None:
    fill(file_run)
    digest = file_run.settle(file_run.receipt(outcome="Stopped"))
    found = await see(file_run, digest)
    assert (found.proof, found.required) == (Proof.PERSISTED, 2)


async def test_a_receipt_without_checksums_is_proven_only_as_deep_as_it_goes(file_run: Run) -> None:
    fill(file_run)
    receipt = file_run.receipt()
    for file in receipt["owed"][0]["files"]:
        file["checksums"] = []
    digest = file_run.settle(receipt)
    assert (await see(file_run, digest)).proof is Proof.INVALID
    assert (await see(file_run, digest, target=target(depth=Depth.SIZES))).proof is Proof.PERSISTED


async def test_a_snapshot_that_cannot_be_read_is_said(file_run: Run) -> None:
    fill(file_run)
    digest = file_run.settle(file_run.receipt())
    file_run.put(f"train/t1-{HASH}/checkpoint_manager_snapshot.json", b"[" * 10_000)
    found = await see(file_run, digest)
    assert (found.proof, f"t1-{HASH}" in found.message) == (Proof.INVALID, True)


# --------------------------------------------------------------------------------------- inventory


async def test_a_run_without_a_receipt_is_inventoried(run: Run) -> None:
    fill(run)
    found = await see(run, inventory=True)
    assert (found.source, found.proof, found.digest, found.outcome) == ("Inventory", Proof.PERSISTED, "", None)
    assert (found.required, found.verified) == (2, 2)  # the best, and the newest of the unfinished trial
    assert found.trials is not None
    assert (found.trials.expected, found.trials.succeeded, found.trials.running) == (3, 2, 1)
    assert found.best is not None
    assert (found.best.trial, found.best.value, found.best.step, found.best.checkpoint) == ("t2", 0.9, 1, BEST)


@pytest.mark.parametrize(("damage", "problem"), [("delete", "Absent"), ("replace", "WrongChecksum")])
async def test_an_inventory_compares_with_the_manifest(run: Run, damage: str, problem: str) -> None:
    fill(run)
    if damage == "delete":
        run.delete(MODEL)
    else:
        run.put(MODEL, b"Z" * len(run.files[BEST]["model.pt"]))
    found = await see(run, inventory=True)
    assert (found.proof, found.missing[0].file, found.missing[0].problem) == (Proof.MISSING, "model.pt", problem)


async def test_checkpoints_without_a_manifest_are_proven_by_being_there(file_run: Run) -> None:
    file_run.trial(1, [0.5], manifest=False)
    assert (await see(file_run, inventory=True)).proof is Proof.PERSISTED
    for path in file_run.files[f"train/t1-{HASH}/checkpoint_1"]:
        file_run.delete(f"train/t1-{HASH}/checkpoint_1/{path}")
    found = await see(file_run, inventory=True)
    assert (found.proof, found.missing[0].problem) == (Proof.MISSING, "Absent")


async def test_an_inventory_waits_until_nobody_writes(file_run: Run) -> None:
    fill(file_run)
    pauses: list[float] = []

    async def write_meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            file_run.trial(4, [0.95])

    found = await look(file_run.store, target(), inventory=True, run=in_thread, sleep=write_meanwhile)
    assert pauses == [15.0, 15.0]
    assert found.best is not None
    assert (found.proof, found.best.trial) == (Proof.PERSISTED, "t4")

    async def never_still(seconds: float) -> None:
        file_run.trial(10 + len(file_run.records), [0.1], "Running")

    found = await look(file_run.store, target(), inventory=True, run=in_thread, sleep=never_still)
    assert (found.proof, found.denied) == (Proof.UNKNOWN, False)


async def test_an_empty_run_owes_nothing(run: Run) -> None:
    found = await see(run, inventory=True)
    assert (found.proof, found.required, found.best) == (Proof.PERSISTED, 0, None)


async def test_a_receipt_goes_before_an_inventory(file_run: Run) -> None:
    fill(file_run)
    digest = file_run.settle(file_run.receipt())
    found = await see(file_run, inventory=True)
    assert (found.source, found.digest) == ("Receipt", digest)


async def test_a_look_that_was_given_up_stops_reading() -> None:
    meter = Meter(cancelled=True)
    with pytest.raises(Exception, match="given up"):
        meter.add(1)


async def test_bounded_work_ends_with_the_first_error_itself() -> None:
    active = most = 0

    async def work(number: int) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0)
        active -= 1
        if number == 7:
            raise KeyError(number)

    with pytest.raises(KeyError):
        await bounded(range(100), work, 3)
    assert most == 3
