"""A million keys cost requests, not memory: a look at them in a process of its own, with its growth in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
LIMIT_MIB = 64

SCRIPT = """
import asyncio, json, resource, sys
from tests.unit.runtime.runs import ATTEMPT, HASH, Run, target
from tests.unit.runtime.stub_s3 import PREFIX, StubS3
from trainsweep.runtime.inventory import look
from trainsweep.runtime.verify import in_thread

keys, inventory = int(sys.argv[1]), sys.argv[2] == "inventory"


class Stray:
    # Keys in the owed checkpoint's own folder, and folders of strangers beside the trials'.
    def __iter__(self):
        for number in range(keys):
            yield f"{PREFIX}/train/t2-{HASH}/checkpoint_1/stray/{number:09d}"
        for number in range(keys // 10):
            yield f"{PREFIX}/train/other-{number:09d}/x"


client = StubS3()
run = Run(client.store(), client.put, client.objects.pop)
run.trial(1, [0.5, 0.7])
run.trial(2, [0.9, 0.8])
digest = "" if inventory else run.settle(run.receipt())


def see():
    return asyncio.run(look(run.store, target(), digest=digest, inventory=inventory, run=in_thread, apart=0))


see()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
client.stray = Stray()
found = see()
grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
lists = sum(what == "LIST" for what, _ in client.requests)
print(json.dumps({"proof": found.proof, "message": found.message, "grown": grown, "lists": lists}))
"""


def grown(keys: int, kind: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(keys), kind],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    assert (found["proof"], found["message"]) == ("Persisted", "")
    assert found["lists"] >= keys // 1000  # type: ignore[operator]  # numbers, from JSON
    return found


def test_a_million_keys_and_many_folders_in_bounded_memory() -> None:
    found = grown(1_000_000, "receipt")
    assert found["grown"] < LIMIT_MIB, found  # type: ignore[operator]  # numbers, from JSON


def test_an_inventory_of_many_keys_in_bounded_memory() -> None:
    found = grown(100_000, "inventory")
    assert found["grown"] < LIMIT_MIB, found  # type: ignore[operator]  # numbers, from JSON
