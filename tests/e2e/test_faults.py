"""The promise under faults, on real pods: what is owed is proven before the last pod goes, and nothing runs twice."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from devcluster.cluster import BUCKET
from tests.e2e.lab import PATIENCE, Lab, Sweep, merged
from tests.together import concurrent

SLOW = {"training": {"config": {"epochs": 40, "seconds": 1.5}}}

DAMAGED = {"deleted": "Absent", "truncated": "WrongSize", "replaced": "WrongChecksum"}
"""How a file is damaged, and what the second look must call it."""


def damage(lab: Lab, key: str, how: str) -> None:
    """Deletes, truncates or replaces an object by as many other bytes."""
    if how == "deleted":
        lab.s3.delete_object(Bucket=BUCKET, Key=key)
        return
    data = lab.read(key)
    body = data[: len(data) // 2] if how == "truncated" else bytes(b ^ 0x20 for b in data)
    lab.s3.put_object(Bucket=BUCKET, Key=key, Body=body)


@dataclass(frozen=True)
class Damaged:
    """What was damaged after the receipt and before the second look."""

    digest: str
    """Of the receipt before."""
    files: dict[str, str]
    """How, by key relative to the run."""


@pytest.fixture(scope="module")
def damaged(lab: Lab) -> dict[str, Damaged]:
    """Two sweeps at once, by name: one owes three checkpoints, each damaged in its own way; one may not try again."""
    short = {
        "training": {"config": {"epochs": 2, "seconds": 1}},
        "checkpoints": {"verify": {"timeoutSeconds": 480}},
        "cleanup": {"holdSeconds": 480},
    }
    three = [{"name": "slope", "categorical": {"values": [1, 2, 3]}}]
    all_owed = {"search": {"parameters": three}, "checkpoints": {"require": "AllSucceeded"}}
    once = {"failurePolicy": {"trialRetries": 0, "attempts": {"application": 0}}}
    over = {"mended": merged(short, all_owed), "no-retries": merged(short, once)}
    for name in over:
        lab.apply(name, over[name])
    started = {name: lab.wait(name, "its launch", lambda s: bool(s.status.get("runURI")), 60) for name in over}
    found: dict[str, Damaged] = {}
    with lab.operator_away():
        for name, sweep in started.items():
            first = lab.receipted(sweep)
            owed = [f"{item['checkpoint']}/progress.json" for item in lab.document(sweep, "receipt.json")["owed"]]
            files = dict(zip(owed, DAMAGED, strict=False))
            for key, how in files.items():
                damage(lab, f"{lab.prefix(sweep)}{key}", how)
            found[name] = Damaged(first["receiptDigest"], files)
    return found


def test_checkpoints_damaged_before_the_second_look_are_mended(lab: Lab, damaged: dict[str, Damaged]) -> None:
    before = damaged["mended"]
    assert sorted(before.files.values()) == sorted(DAMAGED)
    done = lab.finished("mended")
    assert done.condition("Succeeded")[:2] == ("True", "Completed"), done
    assert done.condition("CheckpointsVerified")[0] == "True"
    assert done.status["checkpoints"]["receiptDigest"] != before.digest, "the mended ones have their own receipt"
    assert done.status["attempt"] == 1
    [log] = [key for key in lab.keys(lab.prefix(done)) if key.endswith("/driver.log")]
    [said] = [line for line in lab.read(log).decode().splitlines() if "mending: " in line]
    for key, how in before.files.items():
        assert f"{key} ({DAMAGED[how]})" in said, "each was found, and for what it was"
    lab.released("mended")


def test_damaged_checkpoint_without_retries_ends_not_verified_with_the_files_name(
    lab: Lab, damaged: dict[str, Damaged]
) -> None:
    done = lab.finished("no-retries")
    assert done.condition("Succeeded")[:2] == ("False", "CheckpointsMissing"), done
    status, reason, message = done.condition("CheckpointsVerified")
    assert (status, reason) == ("False", "FilesMissing"), done
    [file] = damaged["no-retries"].files
    assert file in message
    lab.released("no-retries")


@concurrent
def test_head_pod_deleted_the_next_attempt_resumes_and_runs_no_finished_trial_again(lab: Lab) -> None:
    name = "head-lost"
    # One trial at a time: the first has ended and the second trains when the head goes.
    lab.apply(name, {"trials": {"maxConcurrent": 1}, "training": {"config": {"epochs": 6, "seconds": 1.5}}})
    running = lab.reported(name)
    until = time.monotonic() + PATIENCE
    while lab.progress(running)["trials"]["succeeded"] < 1:
        assert time.monotonic() < until, lab.progress(running)
        time.sleep(0.5)
    lab.cluster.kubectl("delete", "pod", lab.head(name)["metadata"]["name"], "--wait=false", "--grace-period=1")
    done = lab.finished(name)
    assert done.condition("Succeeded")[0] == "True", done
    attempts = done.status["attempts"]
    assert [a["number"] for a in attempts] == [1, 2]
    assert attempts[0]["endClass"] == "Infrastructure"
    assert done.status["retries"]["infrastructure"]["used"] == 1
    records = {r["index"]: r for r in lab.records(done)}
    assert sorted(records) == [0, 1]
    assert all(r["state"] == "Succeeded" for r in records.values())
    first = next(o for k, o in _states(lab, done).items() if k.startswith("train/t0000") or "t0000" in k)
    hosts = {host for _, host in first["trained"]}
    assert len(hosts) == 1, "the finished trial was trained on one worker pod only: it never ran again"
    epochs = [epoch for epoch, _ in first["trained"]]
    assert epochs == sorted(set(epochs)), "no committed epoch was trained twice"
    lab.released(name)


def _states(lab: Lab, sweep: Sweep) -> dict[str, Any]:
    """The loop's own state in the newest checkpoint of each trial."""
    prefix = lab.prefix(sweep)
    found: dict[str, Any] = {}
    for key in sorted(lab.keys(prefix + "train/")):
        if key.endswith("/progress.json"):
            trial = key.removeprefix(prefix).split("/")[1]
            found[trial] = json.loads(lab.read(key))["state"]
    return found


@concurrent
def test_foreground_delete_in_mid_run_settles_before_the_last_pod_goes(lab: Lab) -> None:
    name = "foreground"
    lab.apply(name, SLOW)
    sweep = lab.reported(name)
    lab.delete(name, cascade="foreground")
    seen: list[str] = []
    until = time.monotonic() + PATIENCE
    while (now := lab.get(name)) is not None:
        assert time.monotonic() < until, f"{now}\n{lab.describe(name)}"
        verified = now.condition("CheckpointsVerified")
        if verified[0] == "True" and not seen:
            seen.append(f"{len(lab.items('pods', name))}")
        time.sleep(0.5)
    assert seen, "the owed checkpoints were verified while the sweep was still there"
    assert int(seen[0]) > 0, "and while its pods were"
    receipt = lab.document(sweep, "receipt.json")
    assert receipt["outcome"] == "Stopped"
    assert receipt["owed"], "the newest checkpoints of the unfinished trials are owed"
    keys = lab.keys(lab.prefix(sweep))
    for item in receipt["owed"]:
        for file in item["files"]:
            assert keys[f"{lab.prefix(sweep)}{item['checkpoint']}/{file['path']}"] == file["size"]
    for kind in ("rayjobs", "trainsweepholds"):
        assert lab.items(kind, name) == [], f"no {kind} outlives its sweep"


@concurrent
def test_driver_killed_at_settlement_leads_to_an_inventory(lab: Lab) -> None:
    name = "killed"
    lab.apply(name, SLOW | {"failurePolicy": {"attempts": {"application": 0}}})
    lab.reported(name)
    lab.cluster.kubectl(
        "exec", lab.head(name)["metadata"]["name"], "-c", "ray-head", "--",
        "sh", "-c", "pkill -9 -f '^[^ ]*python[0-9.]* -m trainjobs$'",
    )  # fmt: skip
    done = lab.finished(name)
    assert done.condition("Succeeded")[0] == "False", done
    assert done.status["checkpoints"]["source"] == "Inventory", done
    assert done.condition("CheckpointsVerified")[:2] == ("True", "Verified"), done
    assert done.status["attempts"][-1]["endClass"] == "Application"
    lab.released(name)
