from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.render.render_builders import RUN, raw
from tests.unit.runtime.parts import RUN_URI, UID
from tests.unit.runtime.runs import ATTEMPT, Run
from trainsweep.api.resolve import resolve
from trainsweep.api.status import TrainSweepStatus
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.contract.documents import End, Progress, SweepRef
from trainsweep.contract.layout import parse_uri
from trainsweep.core.model import ClassView, ExportState, Proof, Settle, SweepView, Unreadable
from trainsweep.runtime import looks as module
from trainsweep.runtime.access import Access, access_of
from trainsweep.runtime.inventory import verify_run
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.looks import Looks
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.s3_clients import Role
from trainsweep.runtime.store import Store

KEY = SweepKey("team-a", "digits")
PROGRESS = {"attemptId": ATTEMPT, "phase": "Running", "heartbeatAt": 1.0, "trials": {"expected": 3}}


def access(name: str = "digits", namespace: str = "team-a", endpoint: str = "") -> Access:
    spec = resolve(raw(objective={"metric": "acc", "mode": "Maximize"}), None)
    ref = SweepRef(namespace=namespace, name=name, uid=UID, run=RUN)
    return Access(ref, parse_uri(RUN_URI), "", endpoint, spec, 3)


class World:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.hang: set[str] = set()
        self.release = threading.Event()
        self.notified: list[SweepKey] = []
        self.opened: list[str] = []
        self.told: defaultdict[SweepKey, asyncio.Event] = defaultdict(asyncio.Event)
        self.looks = Looks(self.notify, Metrics(), opener=self.open, look_seconds=20, apart_seconds=0)

    def notify(self, key: SweepKey) -> None:
        self.notified.append(key)
        self.told[key].set()

    def open(self, location: Any, region: str, endpoint: str, role: Any = None) -> Store:
        self.opened.append(endpoint)
        if endpoint in self.hang:
            self.release.wait(30)
        return self.run.store

    async def settled(self, key: SweepKey = KEY) -> None:
        async with asyncio.timeout(10):
            await self.told[key].wait()


@pytest.fixture
async def world(file_run: Run) -> AsyncIterator[World]:
    made = World(file_run)
    yield made
    made.release.set()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    return


async def test_a_heartbeat_is_read_in_the_pass_and_not_again_at_once(world: World) -> None:
    assert (await world.looks.view(KEY, access(), ATTEMPT, ended=False)).progress is None
    world.run.put("progress.json", json.dumps(PROGRESS).encode())
    assert (await world.looks.view(KEY, access(), ATTEMPT, ended=False)).progress is None
    assert len(world.opened) == 2, "the heartbeat, and as there is none, the marker"
    world.looks.forget(KEY)
    seen = await world.looks.view(KEY, access(), ATTEMPT, ended=False)
    assert isinstance(seen.progress, Progress)
    assert seen.end is None


async def test_a_driver_that_left_its_marker_has_begun_also_without_a_heartbeat(world: World) -> None:
    assert not (await world.looks.view(KEY, access(), ATTEMPT, ended=False)).started
    world.looks.forget(KEY)
    world.run.put(f"attempts/{ATTEMPT}/start.json", b"{}")
    seen = await world.looks.view(KEY, access(), ATTEMPT, ended=False)
    assert (seen.progress, seen.started) == (None, True)


async def test_the_last_word_is_read_as_soon_as_the_attempt_is_over(world: World) -> None:
    await world.looks.view(KEY, access(), ATTEMPT, ended=False)
    end = {"attemptId": ATTEMPT, "outcome": "Failed", "reason": "BadEntrypoint", "endedAt": 1.0}
    world.run.put(f"attempts/{ATTEMPT}/end.json", json.dumps(end).encode())
    seen = await world.looks.view(KEY, access(), ATTEMPT, ended=True)
    assert isinstance(seen.end, End)
    assert seen.end.reason == "BadEntrypoint"


async def test_a_store_that_hangs_delays_no_pass_but_the_first_and_none_of_others(world: World) -> None:
    world.run.put("progress.json", json.dumps(PROGRESS).encode())
    world.hang.add("http://slow")
    started = time.monotonic()
    first = await world.looks.view(KEY, access(endpoint="http://slow"), ATTEMPT, ended=True)
    assert isinstance(first.progress, Unreadable)
    assert isinstance(first.end, Unreadable)
    assert not first.progress.denied
    again = time.monotonic()
    assert again - started < 2
    for _ in range(50):
        await world.looks.view(KEY, access(endpoint="http://slow"), ATTEMPT, ended=True)
    other = await world.looks.view(SweepKey("team-b", "x"), access(), ATTEMPT, ended=False)
    assert isinstance(other.progress, Progress)
    assert time.monotonic() - again < 2
    world.release.set()
    await world.settled()
    late = await world.looks.view(KEY, access(endpoint="http://slow"), ATTEMPT, ended=False)
    assert isinstance(late.progress, Progress)


async def test_a_hostile_heartbeat_is_unreadable_never_absent(world: World) -> None:
    for bad in (b"x" * 5000, b"[" * 4000, b"{}"):
        world.run.put("progress.json", bad)
        world.looks.forget(KEY)
        seen = await world.looks.view(KEY, access(), ATTEMPT, ended=False)
        assert isinstance(seen.progress, Unreadable)


async def test_a_look_is_single_flight_and_its_end_wakes_the_sweep(world: World) -> None:
    world.run.trial(1, [0.5])
    digest = world.run.settle(
        world.run.receipt(sweep={"namespace": "team-a", "name": "digits", "uid": UID, "run": RUN})
    )
    for _ in range(3):
        world.looks.start(KEY, access(), Settle(ATTEMPT, digest))
    view = await world.looks.view(KEY, access(), ATTEMPT, ended=False)
    assert view.settling
    await world.settled()
    view = await world.looks.view(KEY, access(), ATTEMPT, ended=False)
    assert view.settlement is not None
    assert (view.settling, view.settlement.proof, view.settlement.digest) == (False, Proof.PERSISTED, digest)
    assert world.notified == [KEY]


async def test_results_of_an_older_attempt_are_dropped(world: World) -> None:
    world.run.trial(1, [0.5])
    world.looks.start(KEY, access(), Settle(ATTEMPT, "", True))
    await world.settled()
    newer = await world.looks.view(KEY, access(), "2-0b0e6c1e", ended=False)
    assert newer.settlement is None
    world.looks.start(KEY, access(), Settle("2-0b0e6c1e", "", True))
    world.looks.forget(KEY)
    await asyncio.sleep(0.1)
    assert world.looks.settlement(KEY, UID, "2-0b0e6c1e") is None


async def test_a_look_that_takes_too_long_is_unknown(file_run: Run) -> None:
    world = World(file_run)
    world.looks = Looks(world.notify, Metrics(), opener=world.open, look_seconds=0.2)
    world.hang.add("http://slow")
    world.looks.start(KEY, access(endpoint="http://slow"), Settle(ATTEMPT, "0" * 64))
    await world.settled()
    found = world.looks.settlement(KEY, UID, ATTEMPT)
    world.release.set()
    assert found is not None
    assert (found.proof, found.denied, found.digest) == (Proof.UNKNOWN, False, "0" * 64)


async def test_a_namespace_cannot_take_all_looks(world: World) -> None:
    world.run.trial(1, [0.5])
    world.hang.add("http://slow")
    for number in range(40):
        name = f"hostile-{number}"
        world.looks.start(SweepKey("team-x", name), access(name, "team-x", "http://slow"), Settle(ATTEMPT, ""))
    await asyncio.sleep(0.1)
    assert world.opened.count("http://slow") == module.LOOKS_PER_NAMESPACE
    world.looks.start(KEY, access(), Settle(ATTEMPT, "", True))
    await world.settled()
    world.release.set()


async def test_all_namespaces_together_have_a_limit_and_each_look_one_of_its_own(world: World) -> None:
    world.hang.add("http://slow")
    for number in range(2 * module.LOOKS):
        space = f"team-{number}"
        world.looks.start(SweepKey(space, "x"), access("x", space, "http://slow"), Settle(ATTEMPT, ""))
    await asyncio.sleep(0.2)
    assert world.opened.count("http://slow") == module.LOOKS
    world.release.set()


async def test_an_export_is_looked_at_beside_the_receipt_and_its_result_is_kept_apart(world: World) -> None:
    place = replace(access(), export=parse_uri("s3://bucket/team/models"))
    world.looks.start(KEY, place, Settle(ATTEMPT, export=True))
    await world.settled()
    view = await world.looks.view(KEY, place, ATTEMPT, ended=False)
    assert view.settlement is None
    assert view.export is not None
    assert (view.export.state, view.export.attempt_id, view.settling) == (ExportState.ABSENT, ATTEMPT, False)
    world.looks.refuse(KEY, UID, Settle(ATTEMPT, export=True), Unreadable("no class", True))
    view = await world.looks.view(KEY, place, ATTEMPT, ended=False)
    assert view.export is not None
    assert (view.export.state, view.settlement) == (ExportState.UNKNOWN, None)


def test_an_export_may_only_lie_where_the_class_allows_and_the_role_is_the_classes() -> None:
    role = "arn:aws:iam::111122223333:role/read"
    wanted = {"checkpoints": {"export": {"uri": "s3://bucket/team/models"}}}
    found = access_of(sweep(**wanted), klass(verifierRoleARN=role))
    assert isinstance(found, Access)
    assert found.export == parse_uri(f"s3://bucket/team/models/team-a/digits/{RUN}")
    assert found.role == Role(role, "team-a")
    elsewhere = access_of(sweep(checkpoints={"export": {"uri": "s3://other/models"}}), klass())
    assert isinstance(elsewhere, Access)
    assert isinstance(elsewhere.export, str)
    assert elsewhere.role is None


def sweep(uri: str = RUN_URI, **spec: Any) -> SweepView:
    return SweepView(
        namespace="team-a",
        name="digits",
        uid=UID,
        generation=1,
        resource_version="1",
        spec=raw(**spec),
        status=TrainSweepStatus(run=RUN, run_uri=uri, attempt=1),
    )


def klass(**storage: Any) -> ClassView:
    spec = TrainSweepClassSpec.model_validate({"storage": {"allowedPrefixes": ["s3://bucket/team"], **storage}})
    return ClassView("standard", "u", 1, spec)


@pytest.mark.parametrize(
    ("view", "found", "words"),
    [
        (sweep(), klass(), ""),
        (sweep(), klass(allowedPrefixes=["s3://bucket/team/{namespace}"]), ""),
        (sweep(), None, "no TrainSweepClass"),
        (sweep(), klass(allowedPrefixes=[]), "none of the prefixes"),
        (sweep(), klass(allowedPrefixes=["s3://bucket/tea"]), "none of the prefixes"),
        (sweep(f"s3://bucket/team/team-b/digits/{RUN}"), klass(), "not this sweep's run"),
        (sweep(f"s3://bucket/team/other-team-a/digits/{RUN}"), klass(), "not this sweep's run"),
        (sweep(f"file:///team/team-a/digits/{RUN}"), klass(), "none of the prefixes"),
        (sweep("s3://bucket/../x"), klass(), "must not contain"),
        (sweep(storage={"endpointURL": "http://169.254.169.254"}), klass(), "endpoint"),
        (sweep(storage={"endpointURL": "http://minio:9000"}), klass(endpoints=["http://minio:9000/"]), ""),
        (sweep(trials="odd"), klass(), "trials"),
    ],
)
def test_only_what_the_class_allows_is_read(view: SweepView, found: ClassView | None, words: str) -> None:
    where = access_of(view, found)
    if words:
        assert isinstance(where, Unreadable)
        assert where.denied
        assert words in where.message
    else:
        assert isinstance(where, Access)


def test_the_command_line_looks_the_same_way(file_run: Run) -> None:
    file_run.trial(1, [0.5])
    digest = file_run.settle(file_run.receipt())
    from tests.unit.runtime.runs import target

    assert verify_run(file_run.store.location, target(), digest=digest).proof is Proof.PERSISTED
    nowhere = parse_uri("s3://bucket/x")
    assert verify_run(nowhere, target(), endpoint="http://127.0.0.1:9").proof is Proof.UNKNOWN
