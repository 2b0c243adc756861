from __future__ import annotations

import copy
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.parts import FINALIZER, HOLD_NAME, JOB, KEY, UID, Parts, finalizers, rendered
from trainsweep.contract import labels
from trainsweep.contract.documents import Control, StopRequest
from trainsweep.core import model
from trainsweep.core.model import (
    AddFinalizer,
    CreateRayJob,
    DeleteHold,
    DeleteRayCluster,
    DeleteRayJob,
    EmitEvent,
    EnsureHold,
    PatchControl,
    PatchRayJob,
    RemoveFinalizer,
    RepairHoldReference,
    Settle,
    WriteStatus,
)
from trainsweep.runtime.apply import RefusedError
from trainsweep.runtime.crash import POINTS
from trainsweep.runtime.kube import (
    EVENT,
    HOLD,
    POD,
    RAY_CLUSTER,
    RAY_JOB,
    SWEEP,
    Conflict,
    Denied,
    Invalid,
    Unavailable,
)

LAUNCH = ("after-finalizer", "after-status", "after-hold", "after-post")


def launch(observed: model.Observed) -> tuple[model.Action, ...]:
    status = observed.sweep.status.model_copy(update={"attempt": 1, "observed_generation": 1})
    return (
        AddFinalizer(),
        WriteStatus(status),
        EnsureHold(HOLD_NAME, 1),
        CreateRayJob(rendered(), HOLD_NAME),
        EmitEvent("Normal", "Starting", "Starting attempt 1."),
    )


async def test_a_launch_is_written_ahead_in_order_and_the_ray_job_has_two_owners() -> None:
    parts = Parts()
    parts.sweep()
    observed = await parts.observed()
    await parts.apply(*launch(observed), observed=observed)
    assert [(verb, plural) for verb, plural, _ in parts.kube.writes()] == [
        ("patch", "trainsweeps"),
        ("put_status", "trainsweeps"),
        ("create", "trainsweepholds"),
        ("create", "rayjobs"),
        ("create", "events"),
    ]
    hold, job = parts.kube.find(HOLD, HOLD_NAME), parts.kube.find(RAY_JOB, JOB)
    assert hold is not None
    assert job is not None
    assert "ownerReferences" not in hold["metadata"]
    assert hold["metadata"]["labels"] == labels.identity("digits", UID, 1)
    sweep_owner, hold_owner = job["metadata"]["ownerReferences"]
    assert (sweep_owner["uid"], sweep_owner["controller"], sweep_owner["blockOwnerDeletion"]) == (UID, True, True)
    assert (hold_owner["kind"], hold_owner["uid"]) == ("TrainSweepHold", hold["metadata"]["uid"])
    assert "controller" not in hold_owner
    sweep = parts.kube.find(SWEEP, "digits")
    assert finalizers(sweep) == [FINALIZER]
    assert sweep is not None
    assert sweep["status"]["attempt"] == 1
    assert parts.memory.status_written[KEY] > 0


async def test_the_spec_is_never_written() -> None:
    parts = Parts()
    before = copy.deepcopy(parts.sweep()["spec"])
    observed = await parts.observed()
    await parts.apply(*launch(observed), RemoveFinalizer(), observed=observed)
    sweep = parts.kube.find(SWEEP, "digits")
    assert sweep is not None
    assert sweep["spec"] == before


async def test_a_sweep_that_changed_meanwhile_gets_no_status_and_nothing_after_it() -> None:
    parts = Parts()
    parts.sweep()
    observed = await parts.observed()
    parts.kube.touch(SWEEP, "digits")
    with pytest.raises(Conflict):
        await parts.apply(*launch(observed)[1:], observed=observed)
    assert parts.kube.find(RAY_JOB, JOB) is None
    assert [c for c in parts.kube.writes() if c[1] == "events"] == []


async def test_a_deleted_sweep_is_a_conflict_not_a_crash() -> None:
    parts = Parts()
    parts.sweep()
    observed = await parts.observed()
    parts.kube.objects.clear()
    for action in (AddFinalizer(), WriteStatus(observed.sweep.status), RemoveFinalizer()):
        with pytest.raises(Conflict):
            await parts.apply(action, observed=observed)


@pytest.mark.parametrize("failing", ["patch", "put_status", "create"])
async def test_what_follows_a_failed_action_is_not_done(failing: str) -> None:
    parts = Parts()
    parts.sweep()
    observed = await parts.observed()
    parts.kube.fault = lambda verb, kind, name: Unavailable("503") if verb == failing else None
    with pytest.raises(Unavailable):
        await parts.apply(*launch(observed), observed=observed)
    done = [c[0] for c in parts.kube.writes()]
    assert done == ["patch", "put_status", "create"][: ["patch", "put_status", "create"].index(failing) + 1]
    assert parts.kube.find(RAY_JOB, JOB) is None


@pytest.mark.parametrize("broken_after", range(1, 6))
async def test_a_launch_that_broke_anywhere_is_completed_by_the_next_pass(broken_after: int) -> None:
    parts = Parts()
    parts.sweep()
    observed = await parts.observed()
    count = 0

    def die(verb: str, kind: Any, name: str) -> Exception | None:
        nonlocal count
        count += verb not in ("get", "page")
        return Unavailable("died") if count == broken_after else None

    parts.kube.fault = die
    if broken_after < 5:
        with pytest.raises(Unavailable):
            await parts.apply(*launch(observed), observed=observed)
    else:  # an Event that could not be posted is forgotten
        await parts.apply(*launch(observed), observed=observed)
    parts.kube.fault = None
    again = await parts.observed()
    actions = [a for a in launch(again) if not isinstance(a, AddFinalizer) or FINALIZER not in again.sweep.finalizers]
    await parts.apply(*actions, observed=again)
    jobs = [k for k in parts.kube.objects if k[0] == "rayjobs"]
    assert jobs == [("rayjobs", "team-a", JOB)]
    assert len([k for k in parts.kube.objects if k[0] == "trainsweepholds"]) == 1
    assert finalizers(parts.kube.find(SWEEP, "digits")) == [FINALIZER]


async def test_a_ray_job_that_exists_is_left_as_it_is() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    before = copy.deepcopy(parts.ray_job(spec={"someone": "else's"}))
    await parts.apply(EnsureHold(HOLD_NAME, 1), CreateRayJob(rendered(), HOLD_NAME))
    assert parts.kube.find(RAY_JOB, JOB) == before


async def test_only_of_a_ray_job_that_exists_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    with caplog.at_level(logging.INFO):
        await parts.apply(EnsureHold(HOLD_NAME, 1), CreateRayJob(rendered(), HOLD_NAME))
        assert caplog.messages == []
        await parts.apply(EnsureHold(HOLD_NAME, 1), CreateRayJob(rendered(), HOLD_NAME))
    assert caplog.messages == [f"team-a/digits: RayJob {JOB} is there already"]


async def test_a_hold_that_this_pass_did_not_make_is_looked_up() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    observed = await parts.observed()
    uid = parts.kube.put(HOLD, HOLD_NAME)["metadata"]["uid"]
    await parts.apply(CreateRayJob(rendered(), HOLD_NAME), observed=observed)
    job = parts.kube.find(RAY_JOB, JOB)
    assert job is not None
    assert job["metadata"]["ownerReferences"][1]["uid"] == uid


async def test_a_status_holds_no_null() -> None:
    parts = Parts()
    parts.sweep()
    observed = await parts.observed()
    await parts.apply(*launch(observed), observed=observed)
    sweep = parts.kube.find(SWEEP, "digits")
    assert sweep is not None
    assert None not in sweep["status"].values()


async def test_an_invalid_ray_job_is_never_sent_and_the_reason_is_kept() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    body = rendered()
    body["spec"]["backoffLimit"] = -1
    with pytest.raises(RefusedError, match="backoffLimit"):
        await parts.apply(EnsureHold(HOLD_NAME, 1), CreateRayJob(body, HOLD_NAME))
    assert parts.kube.find(RAY_JOB, JOB) is None
    assert "backoffLimit" in (await parts.observed()).refusal


@pytest.mark.parametrize("error", [Denied("exceeded quota: gpus"), Invalid("denied by kueue webhook")])
async def test_a_refused_ray_job_is_told_once_and_seen_by_the_next_pass(error: Exception) -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    parts.kube.fault = lambda verb, kind, name: error if (verb, kind) == ("create", RAY_JOB) else None
    for _ in range(3):
        with pytest.raises(type(error)):
            await parts.apply(EnsureHold(HOLD_NAME, 1), CreateRayJob(rendered(), HOLD_NAME))
    assert str(error) in (await parts.observed()).refusal
    assert len([k for k in parts.kube.objects if k[0] == "events"]) == 1
    parts.kube.fault = None
    await parts.apply(EnsureHold(HOLD_NAME, 1), CreateRayJob(rendered(), HOLD_NAME))
    assert (await parts.observed()).refusal == ""


async def test_events_are_told_once_and_their_failure_is_no_failure() -> None:
    parts = Parts()
    parts.sweep()
    event = EmitEvent("Normal", "Verified", "3 of 3")
    await parts.apply(event, event)
    assert len([k for k in parts.kube.objects if k[0] == "events"]) == 1
    parts.kube.fault = lambda verb, kind, name: Denied("no") if kind == EVENT else None
    await parts.apply(EmitEvent("Normal", "Released", ""))


async def test_events_of_one_sweep_are_limited() -> None:
    parts = Parts()
    parts.sweep()
    for number in range(100):
        await parts.apply(EmitEvent("Normal", "Spinning", str(number)))
    assert len([k for k in parts.kube.objects if k[0] == "events"]) == 30


async def test_deletes_hold_only_for_the_very_object() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    job = parts.ray_job()
    await parts.apply(DeleteRayJob(JOB, "uid-of-another"))
    assert parts.kube.find(RAY_JOB, JOB) is not None
    await parts.apply(DeleteRayJob(JOB, job["metadata"]["uid"]))
    assert parts.kube.find(RAY_JOB, JOB) is None
    await parts.apply(DeleteRayJob(JOB, job["metadata"]["uid"]), DeleteHold(HOLD_NAME))
    uid = parts.kube.put(RAY_CLUSTER, "left")["metadata"]["uid"]
    await parts.apply(DeleteRayCluster("left", "uid-of-another"))
    assert parts.kube.find(RAY_CLUSTER, "left") is not None
    await parts.apply(DeleteRayCluster("left", uid), DeleteRayCluster("left", uid))
    assert parts.kube.find(RAY_CLUSTER, "left") is None


async def test_the_control_annotation_goes_to_the_pod_that_was_seen() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    meta = {"labels": {**labels.identity("digits", UID, 1), "ray.io/node-type": "head"}}
    parts.kube.put(POD, "head", metadata=meta, status={"phase": "Running"})
    control = Control(attempt_id="1-0b0e6c1e", stop=StopRequest(reason="Deleted"))
    observed = await parts.observed()
    await parts.apply(PatchControl("head", control), observed=observed)
    seen = (await parts.observed()).pods
    assert isinstance(seen, tuple)
    assert seen[0].control == control
    del parts.kube.objects["pods", "team-a", "head"]
    parts.kube.put(POD, "head", metadata=meta)
    with pytest.raises(Conflict):
        await parts.apply(PatchControl("head", control), observed=observed)


async def test_a_patch_that_would_make_a_ray_job_invalid_is_never_sent() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    body = rendered()
    job = parts.ray_job(spec=body["spec"], metadata=body["metadata"])
    uid = job["metadata"]["uid"]
    await parts.apply(PatchRayJob(JOB, uid, {"ttlSecondsAfterFinished": 0}))
    found = parts.kube.find(RAY_JOB, JOB)
    assert found is not None
    assert found["spec"]["ttlSecondsAfterFinished"] == 0
    with pytest.raises(RefusedError):
        await parts.apply(PatchRayJob(JOB, uid, {"ttlSecondsAfterFinished": -1}))
    writes = len(parts.kube.writes())
    await parts.apply(PatchRayJob(JOB, "another", {"ttlSecondsAfterFinished": 5}), PatchRayJob("gone", uid, {}))
    assert len(parts.kube.writes()) == writes


async def test_a_ray_job_that_was_invalid_before_us_can_still_be_released() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    body = rendered()
    job = parts.ray_job(spec={**body["spec"], "backoffLimit": -1}, metadata=body["metadata"])
    await parts.apply(PatchRayJob(JOB, job["metadata"]["uid"], {"ttlSecondsAfterFinished": 0}))
    found = parts.kube.find(RAY_JOB, JOB)
    assert found is not None
    assert found["spec"]["ttlSecondsAfterFinished"] == 0


async def test_a_lost_hold_is_made_again_and_its_reference_patched_back() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    owner = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweep", "name": "digits", "uid": UID}
    stale = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweepHold", "name": HOLD_NAME, "uid": "gone"}
    parts.ray_job(metadata={"ownerReferences": [owner, stale]})
    await parts.apply(RepairHoldReference(JOB, HOLD_NAME, 1))
    hold, job = parts.kube.find(HOLD, HOLD_NAME), parts.kube.find(RAY_JOB, JOB)
    assert hold is not None
    assert job is not None
    references = job["metadata"]["ownerReferences"]
    assert [r["uid"] for r in references] == [UID, hold["metadata"]["uid"]]
    writes = len(parts.kube.writes())
    await parts.apply(RepairHoldReference(JOB, HOLD_NAME, 1))
    assert len(parts.kube.writes()) == writes


async def test_a_ray_job_that_is_gone_needs_no_hold_reference() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    await parts.apply(RepairHoldReference(JOB, HOLD_NAME, 1))
    assert parts.kube.find(HOLD, HOLD_NAME) is not None
    assert parts.kube.find(RAY_JOB, JOB) is None


async def test_a_foreign_ray_job_gets_no_hold_reference() -> None:
    parts = Parts()
    parts.sweep(attempt=1)
    before = copy.deepcopy(parts.ray_job(metadata={"labels": {}}))
    await parts.apply(RepairHoldReference(JOB, HOLD_NAME, 1))
    assert parts.kube.find(RAY_JOB, JOB) == before


async def test_our_finalizer_comes_after_those_of_others() -> None:
    parts = Parts()
    parts.sweep(finalizers=["other/one", "other/two"])
    await parts.apply(AddFinalizer())
    assert finalizers(parts.kube.find(SWEEP, "digits")) == ["other/one", "other/two", FINALIZER]


async def test_the_last_finalizer_lets_the_sweep_go() -> None:
    parts = Parts()
    parts.sweep(finalizers=["other/one", FINALIZER], deletionTimestamp="2026-11-29T00:00:00Z")
    await parts.apply(RemoveFinalizer())
    assert finalizers(parts.kube.find(SWEEP, "digits")) == ["other/one"]


async def test_a_place_that_the_class_forbids_is_never_read() -> None:
    opened: list[object] = []

    def opener(*where: object) -> Any:
        opened.append(where)
        raise AssertionError(where)

    parts = Parts(opener=opener)
    parts.sweep(attempt=1, status={"runURI": f"s3://other/team-b/digits/{'v1-0123456789abcdef'}"})
    await parts.apply(Settle("1-0b0e6c1e", "", True))
    store = (await parts.observed()).store
    assert store.settlement is not None
    assert (store.settlement.proof, store.settlement.denied) == (model.Proof.UNKNOWN, True)
    assert isinstance(store.progress, model.Unreadable)
    assert store.progress.denied
    assert opened == []


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_point_kills_once(tmp_path: Path, point: str) -> None:
    deaths = tmp_path / "deaths"
    code = f"from trainsweep.runtime.crash import crash_point; crash_point('other'); crash_point({point!r})"
    env = {
        **os.environ,
        "TRAINSWEEP_CRASH_AT": f"elsewhere,{point}",
        "TRAINSWEEP_CRASH_ONCE_FILE": str(deaths),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    first = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    second = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert (first.returncode, second.returncode) == (137, 0)
    assert point in first.stderr
    assert deaths.read_text() == f"{point}\n"
