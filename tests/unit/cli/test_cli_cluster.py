"""status, logs and verify: what they print and their exit codes, with a cluster in memory and a store on disk."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from tests.unit.render.render_builders import raw
from tests.unit.runtime.fake_kube import FakeKube
from tests.unit.runtime.runs import ATTEMPT, SWEEP, UID, Run
from trainsweep.api.resolve import resolve
from trainsweep.cli import cluster, judge, status_command
from trainsweep.cli.logs_command import fresh
from trainsweep.cli.main import app
from trainsweep.contract.documents import StoreRef, SweepFile
from trainsweep.contract.layout import parse_uri
from trainsweep.runtime import kube as port
from trainsweep.runtime.store import FileStore

AT = "2026-01-01T00:00:00Z"
SPEC = raw(objective={"metric": "acc", "mode": "Maximize"})


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "INVENTORY_APART", 0.0)
    root = tmp_path / SWEEP.namespace / SWEEP.name / SWEEP.run
    root.mkdir(parents=True)

    def put(key, data):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)

    made = Run(FileStore(parse_uri(f"file://{root}")), put, lambda key: (root / key).unlink())
    made.trial(0, [0.5, 0.75])
    spec = resolve(SPEC, None).model_dump(mode="json", by_alias=True)
    file = SweepFile(sweep=SWEEP, attempt=1, attempt_id=ATTEMPT, store=StoreRef(uri=made.store.location.uri), spec=spec)
    put("sweep.json", file.to_json())
    return made


@pytest.fixture
def kube(monkeypatch, run):
    fake = FakeKube()
    monkeypatch.setattr(cluster, "namespace_of_context", lambda: "team-a")
    monkeypatch.setattr(status_command, "namespace_of_context", lambda: "team-a")

    def with_fake(work):
        try:
            return asyncio.run(work(fake))
        except port.NotFound as error:
            cluster.leave(cluster.Exit.FAILED, str(error))

    monkeypatch.setattr(cluster, "with_kube", with_fake)
    conditions = [("Succeeded", "Unknown", "Running"), ("CheckpointsVerified", "Unknown", "WaitingForReceipt")]
    status = {
        "conditions": [
            {
                "type": t,
                "status": s,
                "reason": r,
                "message": "[bold]plain[/bold]",
                "lastTransitionTime": AT,
            }
            for t, s, r in conditions
        ],
        "run": SWEEP.run,
        "runURI": run.store.location.uri,
        "attempt": 1,
        "trials": {"expected": 3, "succeeded": 1, "summary": "1/3", "running": 2},
        "best": {"trial": "t0", "value": "0.75", "parameters": {"lr": "0.1"}},
    }
    fake.put(port.SWEEP, "digits", metadata={"uid": UID}, spec=SPEC, status=status)
    return fake


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def finish(kube, succeeded, reason):
    status = kube.find(port.SWEEP, "digits")["status"]
    for kind, value in (("Finished", "True"), ("Succeeded", succeeded)):
        status["conditions"] = [c for c in status["conditions"] if c["type"] != kind]
        status["conditions"].append({"type": kind, "status": value, "reason": reason, "lastTransitionTime": AT})


def test_status_shows_state_and_conditions_as_text(kube):
    found = invoke("status", "digits")
    assert found.exit_code == 0, found.output
    assert "Running" in found.stdout
    assert "trials 1/3 (2 running, 0 failed)" in found.stdout
    assert "t0: 0.75 with lr=0.1" in found.stdout
    assert "[bold]plain[/bold]" in found.stdout, "what a driver wrote is never markup"


@pytest.mark.parametrize(("uri", "shown"), [("s3://models/x", "s3://models/x"), ("", "ExportFailed: could not copy")])
def test_status_says_what_became_of_the_export(kube, uri, shown):
    status = kube.find(port.SWEEP, "digits")["status"]
    assert "exported" not in invoke("status", "digits").stdout
    status["checkpoints"] = {**status.get("checkpoints", {}), "exportURI": uri}
    status["conditions"].append(
        {
            "type": "Exported",
            "status": "True" if uri else "False",
            "reason": "Exported" if uri else "ExportFailed",
            "message": "" if uri else "could not copy",
            "lastTransitionTime": AT,
        }
    )
    assert f"exported    {shown}" in invoke("status", "digits").stdout


def test_status_for_scripts_is_the_status(kube):
    assert json.loads(invoke("status", "digits", "-o", "json").stdout)["attempt"] == 1


def test_status_of_a_failed_sweep_is_code_1(kube):
    finish(kube, "False", "RetriesExhausted")
    assert invoke("status", "digits").exit_code == 1


def test_watch_ends_when_the_sweep_does(kube, monkeypatch):
    def pass_on(seconds):
        finish(kube, "True", "Completed")

    monkeypatch.setattr(status_command.time, "sleep", pass_on)
    found = invoke("status", "digits", "--watch")
    assert found.exit_code == 0
    assert found.stdout.index("Running") < found.stdout.index("Completed")


def test_a_sweep_that_is_not_there_is_code_1(kube):
    for command in ("status", "logs", "verify"):
        assert invoke(command, "other").exit_code == 1


def test_no_cluster_is_code_3(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for command in ("status", "logs", "verify"):
        found = invoke(command, "digits")
        assert found.exit_code == 3
        assert "set KUBECONFIG" in found.stderr


def test_logs_come_from_the_store_without_terminal_sequences(kube, run):
    run.put(f"attempts/{ATTEMPT}/driver.log", b"epoch 1\n\x1b[31mred\x07\n")
    found = invoke("logs", "digits")
    assert found.exit_code == 0, found.output
    assert found.stdout == "epoch 1\n[31mred\n"


def test_no_log_yet_is_code_1_and_says_what_to_do(kube):
    found = invoke("logs", "digits")
    assert found.exit_code == 1
    assert "kubectl describe trainsweep digits" in found.stderr


@pytest.mark.parametrize(
    ("old", "new", "more"),
    [("", "a", "a"), ("a", "a\nb", "b"), ("a\nb", "a\nb", ""), ("x\na\nb", "cut\na\nb\nc", "cut\na\nb\nc")],
)
def test_following_prints_only_what_is_new(old, new, more):
    assert fresh(old, new) == more


def test_following_a_log_whose_beginning_was_cut():
    lines = [f"line {i}" for i in range(200)]
    assert fresh("\n".join(lines[:150]), "\n".join(["[cut]", *lines[50:]])) == "\n".join(lines[150:])


@pytest.mark.parametrize("by", ["name", "uri"])
def test_verify_proves_a_run(kube, run, by):
    receipt = run.receipt()
    run.settle(receipt)
    run.put("receipt.json", json.dumps(receipt).encode())
    found = invoke("verify", "digits" if by == "name" else run.store.location.uri, "-o", "json")
    assert found.exit_code == 0, found.output
    out = json.loads(found.stdout)
    assert (out["proof"], out["source"], out["proven"], out["files"]) == ("Persisted", "Receipt", 1, 3)


@pytest.mark.parametrize("by", ["name", "uri"])
def test_verify_names_a_damaged_file(kube, run, by):
    run.settle(run.receipt())
    (key,) = [o["checkpoint"] for o in run.receipt()["owed"]]
    run.put(f"{key}/model.pt", b"x")
    found = invoke("verify", "digits" if by == "name" else run.store.location.uri)
    assert found.exit_code == 1
    assert f"{key}/model.pt: WrongSize" in found.stdout


def test_verify_of_a_run_without_a_receipt_is_an_inventory(kube, run):
    run.put(f"attempts/{ATTEMPT}/start.json", b"{}")
    found = invoke("verify", run.store.location.uri, "-o", "json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["source"] == "Inventory"


def test_verify_of_a_place_without_a_run(tmp_path):
    found = invoke("verify", f"file://{tmp_path}")
    assert found.exit_code == 1
    assert "sweep.json" in found.stderr


@pytest.mark.parametrize("uri", ["s3://b/../x", "gs://b/x", "s3://"])
def test_verify_of_no_uri_is_wrong_usage(uri):
    assert invoke("verify", uri).exit_code == 2


def test_a_hostile_sweep_file_is_a_sentence(run):
    for data in (b"[" * 5000, b'{"spec": 1}', b'{"contractVersion": 99}'):
        run.put("sweep.json", data)
        found = invoke("verify", run.store.location.uri)
        assert found.exit_code == 1
        assert "sweep.json" in found.stderr


def test_namespace_of_the_current_context(tmp_path, monkeypatch):
    file = tmp_path / "config"
    file.write_text(
        "current-context: b\ncontexts:\n- {name: a, context: {namespace: x}}\n- {name: b, context: {namespace: y}}\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert cluster.namespace_of_context() == "y"
    file.write_text("current-context: b\ncontexts:\n- {name: b, context: {}}\n")
    assert cluster.namespace_of_context() == "default"
