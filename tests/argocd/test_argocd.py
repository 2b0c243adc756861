"""Sweeps in Git under a real Argo CD: synced, shown, pruned, healed, acted on and made anew, without a fight.

The longest come first: two at a time, they then end together.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import yaml

from devcluster.tools import kubectl
from tests.argocd.argo import Seen, never_out_of_sync
from tests.argocd.conftest import Pair
from tests.e2e.lab import Lab, Sweep
from tests.platform.conftest import ROOT
from tests.together import concurrent, long

SPACE = "default"
SLOW = {"training": {"config": {"epochs": 60, "seconds": 1.5}}}
QUICK = {"training": {"config": {"epochs": 2, "seconds": 0.2}}}


def tiny(name: str) -> list[dict[str, Any]]:
    """The example `tiny` as objects, under another name."""
    text = subprocess.run(
        [str(kubectl()), "kustomize", "examples/tiny"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    objects = [item for item in yaml.safe_load_all(text) if item]
    for item in objects:
        if item["kind"] == "TrainSweep":
            item["metadata"]["name"] = name
    return objects


def one_trial(lab: Lab, name: str, over: dict[str, Any]) -> dict[str, Any]:
    """A sweep of one trial: how many there are is nothing to Argo CD."""
    made = lab.manifest(name, over)
    made["spec"]["search"]["algorithm"] = {"random": {"seed": 1}}
    made["spec"]["trials"] = {"count": 1, "maxConcurrent": 1}
    return made


def ended_well(seen: Seen) -> bool:
    return seen.health == "Healthy"


@concurrent
def test_suspend_is_not_healed_away_and_resume_goes_on(pair: Pair) -> None:
    lab, argo, app = pair.lab, pair.argo, "acted"
    over = {"training": {"config": {"epochs": 30, "seconds": 1.5}}}
    argo.commit({f"{app}/sweep.yaml": [one_trial(lab, app, over)]})
    argo.application(app, SPACE)
    argo.wait(app, "a sweep", lambda s: s.health == "Progressing", 180)
    lab.reported(app)
    assert argo.actions(app, SPACE, app) == {"suspend": True, "resume": False, "retry": False}
    argo.act(app, SPACE, app, "suspend")
    seen = argo.wait(app, "Suspended", lambda s: s.health == "Suspended", 360)
    argo.refresh(app)
    began = time.monotonic()
    paused = argo.wait(app, "half a minute", lambda s: time.monotonic() - began > 30, 120)
    assert {s.health for s in paused} == {"Suspended"}, "self-healing leaves it alone"
    seen += paused
    assert never_out_of_sync(seen)
    found = lab.get(app)
    assert found is not None
    assert found.body["spec"]["suspend"] is True
    assert argo.actions(app, SPACE, app) == {"suspend": False, "resume": True, "retry": False}
    argo.act(app, SPACE, app, "resume")
    seen += argo.wait(app, "Healthy", ended_well, 600)
    assert never_out_of_sync(seen)
    done = lab.finished(app, 600)
    assert "suspend" not in done.body["spec"], "it is again what lies in Git"
    used = {kind: about["used"] for kind, about in done.status["retries"].items()}
    assert not any(used.values()), used
    assert len(argo.get(app)["status"]["history"]) == 1


@concurrent
def test_retry_ends_the_pause(pair: Pair) -> None:
    lab, argo, app = pair.lab, pair.argo, "retried"
    over = {
        "training": {"config": {"epochs": 40, "seconds": 1.5}},
        "failurePolicy": {"trialRetries": 0, "backoff": {"initialSeconds": 3600, "maxSeconds": 3600}},
    }
    argo.commit({f"{app}/sweep.yaml": [one_trial(lab, app, over)]})
    argo.application(app, SPACE, server_side=True)
    argo.wait(app, "a sweep", lambda s: s.health == "Progressing", 180)
    lab.reported(app)
    lab.cluster.kubectl("delete", "pod", lab.head(app)["metadata"]["name"], "--wait=false", "--grace-period=1")
    argo.wait(app, "Retrying", lambda s: s.message.startswith("Retrying: "), 360)
    lab.wait(app, "its pods to go", lambda s: s.status["attempts"][-1].get("goneAt"), 300)
    assert argo.actions(app, SPACE, app)["retry"]
    argo.act(app, SPACE, app, "retry")
    lab.wait(app, "the next attempt", lambda s: s.status["attempt"] == 2, 90)
    argo.commit({f"{app}/sweep.yaml": None})


@concurrent
def test_prune_in_mid_run_proves_what_is_owed_and_then_it_is_gone(pair: Pair) -> None:
    lab, argo, app = pair.lab, pair.argo, "pruned"
    argo.commit({f"{app}/sweep.yaml": [one_trial(lab, app, SLOW)]})
    argo.application(app, SPACE)
    argo.wait(app, "a sweep", lambda s: s.health == "Progressing", 180)
    sweep = lab.reported(app)
    prefix = lab.prefix(sweep)
    [job] = lab.items("rayjobs", app)
    argo.commit({f"{app}/sweep.yaml": None})
    argo.refresh(app)
    verified, jobs_while_unproven, pending = False, True, False
    until = time.monotonic() + 480
    last: Sweep | None = sweep
    while True:
        alive = [j["metadata"]["uid"] for j in lab.items("rayjobs", app)]  # before the sweep: it may settle in between
        found = lab.get(app)
        if found is None:
            break
        assert time.monotonic() < until, last
        last = found
        verified = verified or found.condition("CheckpointsVerified")[0] == "True"
        pending = pending or argo.look(app).message == "Pending deletion"
        if not verified and not found.status["attempts"][-1].get("settledAt"):
            jobs_while_unproven = jobs_while_unproven and alive == [job["metadata"]["uid"]]
        time.sleep(0.5)
    assert pending, "Argo CD shows that the deletion is under way"
    assert verified, last
    assert jobs_while_unproven, "foreground deletion took the RayJob before its checkpoints were proven"
    receipt = json.loads(lab.read(prefix + "receipt.json"))
    keys = lab.keys(prefix)
    for item in receipt["owed"]:
        assert [key for key in keys if key.startswith(f"{prefix}{item['checkpoint']}/")], item
    argo.wait(app, "Synced", lambda s: s.sync == "Synced", 150)
    _nothing_left(lab, app)


def _nothing_left(lab: Lab, name: str) -> None:
    until = time.monotonic() + 150
    while True:
        left = [item for kind in ("rayjobs", "pods", "trainsweepholds") for item in lab.items(kind, name)]
        if not left:
            return
        assert time.monotonic() < until, [item["metadata"]["name"] for item in left]
        time.sleep(1)


@concurrent
def test_a_sweep_that_is_made_anew_adopts_its_finished_run(pair: Pair) -> None:
    """Self-healing makes a deleted sweep again; its trials are not trained and not billed again."""
    lab, argo, app = pair.lab, pair.argo, "adopted"
    argo.commit({f"{app}/sweep.yaml": [one_trial(lab, app, QUICK)]})
    argo.application(app, SPACE)
    argo.wait(app, "Healthy", ended_well, 600)
    first = lab.released(app, 300)
    trained = {r["index"]: r for r in lab.records(first)}
    before = {key: size for key, size in lab.keys(lab.prefix(first)).items() if "/train/" in key}
    lab.delete(app, wait=True)
    argo.refresh(app)

    def again(sweep: Sweep | None) -> bool:
        return sweep is not None and sweep.body["metadata"]["uid"] != first.body["metadata"]["uid"]

    until = time.monotonic() + 240
    while not again(lab.get(app)):
        assert time.monotonic() < until, "self-healing did not make it again"
        time.sleep(1)
    second = lab.finished(app, 600)
    assert second.condition("Succeeded")[0] == "True", second
    assert second.status["run"] == first.status["run"]
    assert {r["index"]: r for r in lab.records(second)} == trained, "no trial ran again"
    after = {key: size for key, size in lab.keys(lab.prefix(second)).items() if "/train/" in key}
    assert after == before
    seen = argo.wait(app, "Healthy", ended_well, 150)
    assert seen[-1].sync == "Synced"


@concurrent
def test_deleting_an_application_in_mid_run_settles_first(pair: Pair) -> None:
    lab, argo, app = pair.lab, pair.argo, "unapplied"
    argo.commit({f"{app}/sweep.yaml": [one_trial(lab, app, SLOW)]})
    argo.application(app, SPACE, server_side=True)
    argo.wait(app, "a sweep", lambda s: s.health == "Progressing", 180)
    lab.reported(app)
    argo.delete(app)
    verified = False
    until = time.monotonic() + 480
    while (found := lab.get(app)) is not None:
        assert time.monotonic() < until, found
        verified = verified or found.condition("CheckpointsVerified")[0] == "True"
        time.sleep(0.5)
    assert verified
    until = time.monotonic() + 150
    while argo.get(app):
        assert time.monotonic() < until, "the Application hangs"
        time.sleep(1)
    _nothing_left(lab, app)


@concurrent
def test_sync_shows_progress_and_health_and_is_never_out_of_sync(pair: Pair) -> None:
    """Tracked by annotation, which is Argo CD's own default; by client-side diff."""
    _whole_lives(pair, {"client-annotation": [one_trial(pair.lab, "client-annotation", QUICK)]})


@concurrent
def test_the_example_tiny_is_never_out_of_sync_either_by_server_side_diff(pair: Pair) -> None:
    _whole_lives(pair, {"server-annotation": tiny("tiny-in-git")})


def test_it_is_never_out_of_sync_either_where_argo_cd_tracks_by_label(pair: Pair) -> None:
    """The tracking method is a setting of Argo CD as a whole."""
    pair.argo.settings({"application.resourceTrackingMethod": "label"})
    names = ("client-label", "server-label")
    _whole_lives(pair, {name: [one_trial(pair.lab, name, QUICK)] for name in names})


def _whole_lives(pair: Pair, apps: dict[str, list[dict[str, Any]]]) -> None:
    """From their sync to their end, of Applications by name; the name says how they are compared."""
    pair.argo.commit({f"{app}/sweep.yaml": objects for app, objects in apps.items()})
    for app in apps:
        pair.argo.application(app, SPACE, server_side=app.startswith("server"))
    seen: dict[str, list[Seen]] = {app: [] for app in apps}
    until = time.monotonic() + 600
    while not all(looks and ended_well(looks[-1]) for looks in seen.values()):
        assert time.monotonic() < until, {app: looks[-3:] for app, looks in seen.items()}
        for app in apps:
            seen[app].append(pair.argo.look(app))
        time.sleep(1)
    for app in apps:  # with what the operator wrote to it in a whole life, and looked at anew
        pair.argo.refresh(app)
        seen[app] += pair.argo.wait(app, "Synced after a refresh", lambda s: s.sync == "Synced", 150)
    for app, looks in seen.items():
        assert never_out_of_sync(looks), [(s.sync, s.health) for s in looks]
        progressing = {s.message for s in looks if s.health == "Progressing"}
        assert any("Starting" in message or "Waiting" in message for message in progressing), progressing
        assert "Degraded" not in {s.health for s in looks}
        assert looks[-1].message.startswith("Completed: best"), looks[-1]
        assert len(pair.argo.get(app)["status"]["history"]) == 1, "one sync, and none to heal"
        pair.argo.commit({f"{app}/sweep.yaml": None})


@concurrent
@long
def test_a_class_that_is_not_there_is_degraded_at_once(pair: Pair) -> None:
    pair.argo.commit({"wrong/sweep.yaml": [pair.lab.manifest("wrong", {"className": "no-such-class"})]})
    pair.argo.application("wrong", SPACE)
    seen = pair.argo.wait("wrong", "Degraded", lambda s: s.health == "Degraded", 180)
    assert seen[-1].message.startswith("ClassNotFound: "), seen[-1]


@concurrent
def test_a_failure_is_degraded_with_its_reason_and_nothing_is_offered(pair: Pair) -> None:
    over = {
        "training": {"config": {"epochs": 2, "seconds": 0.1, "fail": 1}},
        "trials": {"maxConcurrent": 2, "maxFailed": 0},
        "failurePolicy": {"trialRetries": 0, "attempts": {"application": 0}},
    }
    pair.argo.commit({"fails/sweep.yaml": [pair.lab.manifest("fails", over)]})
    pair.argo.application("fails", SPACE)
    seen = pair.argo.wait("fails", "Degraded", lambda s: s.health == "Degraded", 480)
    assert seen[-1].message.startswith("MaxFailedTrials: "), seen[-1]
    assert never_out_of_sync(seen)
    offered = pair.argo.actions("fails", SPACE, "fails")
    assert offered == {"suspend": False, "resume": False, "retry": False}
