"""Two teams and two GPUs under a real Kueue: who waits is told why in Kueue's own words, and who is preempted resumes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import Any

from devcluster import sweeps
from tests.e2e.lab import Lab, Sweep
from tests.platform.conftest import ROOT, Upgraded
from tests.platform.queues import GPU, on_gpus, slow
from tests.together import concurrent


def why(lab: Lab, name: str, namespace: str) -> str:
    """What `trainsweep why` prints."""
    env = {**os.environ, **lab.cluster.env(), "PYTHONPATH": f"{ROOT}/operator:{ROOT}"}
    argv = [sys.executable, "-m", "trainsweep.cli.main", "why", name, "--namespace", namespace]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    return done.stdout + done.stderr


def workload_words(lab: Lab, namespace: str) -> list[str]:
    """What the Workloads of a namespace say of their quota."""
    items = json.loads(lab.cluster.kubectl("get", "workloads.kueue.x-k8s.io", "-n", namespace, "-o", "json"))["items"]
    return [
        c["message"]
        for item in items
        for c in item.get("status", {}).get("conditions", [])
        if c["type"] == "QuotaReserved" and c["status"] == "False"
    ]


def waits(sweep: Sweep) -> bool:
    return "insufficient unused quota" in sweep.status.get("pending", {}).get("message", "")


@concurrent
def test_the_second_team_waits_with_the_workload_s_own_words_and_runs_after_the_first(upgraded: Upgraded) -> None:
    lab = upgraded.lab
    lab.apply("first", on_gpus("gpus", training=slow(40)), "team-a")
    lab.reported("first", namespace="team-a")
    lab.apply("second", on_gpus("gpus"), "team-b")
    second = lab.wait("second", "its reason", waits, 120, "team-b")
    pending = second.status["pending"]
    assert (pending["layer"], pending["reason"]) == ("Kueue", "QuotaInUse"), pending
    said = workload_words(lab, "team-b")
    assert any(words and words.split(";")[0].strip() in pending["message"] for words in said), (said, pending)
    assert f"insufficient unused quota for {GPU} in flavor default" in pending["message"]
    told = why(lab, "second", "team-b")
    assert f"insufficient unused quota for {GPU} in flavor default" in told, told
    assert not lab.items("pods", "second", "team-b"), "nothing of it runs while it waits"
    first = lab.finished("first", 300, "team-a")
    assert first.condition("Succeeded")[0] == "True", first
    second = lab.finished("second", 300, "team-b")
    assert second.condition("Succeeded")[0] == "True", second
    assert second.status["startedAt"] >= first.status["startedAt"]
    assert second.status.get("pending") is None
    for sweep in (first, second):
        assert [a["number"] for a in sweep.status["attempts"]] == [1]


@concurrent
def test_a_preempted_sweep_resumes_and_loses_no_finished_trial_and_no_retry(upgraded: Upgraded) -> None:
    lab = upgraded.lab
    lab.apply("cheap", on_gpus("ranked", training=slow(), trials={"maxConcurrent": 1}), "team-a")
    cheap = lab.reported("cheap", namespace="team-a")
    until = time.monotonic() + 150
    while lab.progress(cheap)["trials"]["succeeded"] < 1:
        assert time.monotonic() < until, lab.progress(cheap)
        time.sleep(0.5)
    lab.apply("urgent", on_gpus("ranked", scheduling={"queueName": "ranked", "priorityClassName": "urgent"}), "team-b")
    urgent = lab.finished("urgent", 300, "team-b")
    assert urgent.condition("Succeeded")[0] == "True", urgent
    cheap = lab.finished("cheap", 400, "team-a")
    assert cheap.condition("Succeeded")[0] == "True", cheap
    first, *others = cheap.status["attempts"]
    assert first["endClass"] == "Eviction", first
    assert len(others) == 1, cheap
    retries = {kind: about["used"] for kind, about in cheap.status["retries"].items()}
    assert retries["eviction"] == 1
    assert not [kind for kind, used in retries.items() if used and kind != "eviction"], retries
    records = {r["index"]: r for r in lab.records(cheap)}
    assert sorted(records) == [0, 1]
    assert all(r["state"] == "Succeeded" for r in records.values())
    done_first = states(lab, cheap)["t0000"]
    assert len({host for _, host in done_first}) == 1, "the finished trial never ran again"
    epochs = [epoch for epoch, _ in done_first]
    assert epochs == sorted(set(epochs))
    assert cheap.condition("CheckpointsVerified")[0] == "True", cheap
    lab.released("cheap", namespace="team-a")


def states(lab: Lab, sweep: Sweep) -> dict[str, list[Any]]:
    """What each trial's newest checkpoint says was trained, and where."""
    prefix = lab.prefix(sweep)
    found: dict[str, list[Any]] = {}
    for key in sorted(lab.keys(prefix + "train/")):
        if key.endswith("/progress.json"):
            trial = key.removeprefix(prefix).split("/")[1]
            found[trial.split("-")[0]] = json.loads(lab.read(key))["state"]["trained"]
    return found


@concurrent
def test_a_resource_quota_is_named_with_what_is_used_and_what_was_asked(upgraded: Upgraded) -> None:
    lab, space = upgraded.lab, "team-quota"
    quota = {"hard": {f"requests.{GPU}": "1"}}
    sweeps.apply(
        lab.cluster,
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus", "namespace": space}, "spec": quota},
    )
    lab.apply("greedy", on_gpus(None), space)

    def refused(sweep: Sweep) -> bool:
        return "ResourceQuota gpus" in sweep.status.get("pending", {}).get("message", "")

    found = lab.wait("greedy", "the quota's name", refused, 180, space)
    pending = found.status["pending"]
    assert (pending["layer"], pending["reason"]) == ("Quota", "QuotaExceeded"), pending
    told = why(lab, "greedy", space)
    for text in (pending["message"], told):
        assert f"ResourceQuota gpus is spent: requests.{GPU}: 2 asked, 0 of 1 used" in text, text
    lab.delete("greedy", space, wait=True)


def test_what_the_page_shows_is_taken_by_kueue(lab: Lab) -> None:
    page = (ROOT / "docs/howto/kueue.md").read_text(encoding="utf-8")
    shown = [code for code in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kueue.x-k8s.io/" in code]
    assert len(shown) == 2
    for code in shown:
        lab.cluster.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=code)
