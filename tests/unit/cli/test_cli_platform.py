"""why, list, suspend, resume, retry, diff and download: what they print, what they change, and their exit codes."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.unit.core.core_builders import pod_body
from tests.unit.render.render_builders import raw
from tests.unit.runtime.fake_kube import FakeKube
from tests.unit.runtime.runs import SWEEP, UID, Run
from trainsweep.api import generate
from trainsweep.cli import cluster, reference
from trainsweep.cli.diff_command import changes, fixed
from trainsweep.cli.main import app
from trainsweep.contract import labels
from trainsweep.contract.layout import parse_uri
from trainsweep.render.rayjob import rayjob_name
from trainsweep.runtime import kube as port
from trainsweep.runtime.store import FileStore

SPEC = raw(objective={"metric": "acc", "mode": "Maximize"})
AT = "2026-01-01T00:00:00Z"


def condition(kind, status, reason):
    return {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": AT}


@pytest.fixture
def kube(monkeypatch):
    fake = FakeKube()
    monkeypatch.setattr(cluster, "namespace_of_context", lambda: "team-a")

    def with_fake(work):
        try:
            return asyncio.run(work(fake))
        except port.NotFound as error:
            cluster.leave(cluster.Exit.FAILED, str(error))
        except port.KubeError as error:
            cluster.leave(cluster.Exit.UNREACHABLE, str(error))

    monkeypatch.setattr(cluster, "with_kube", with_fake)
    return fake


def put(kube, *conditions, namespace="team-a", name="digits", meta=None, spec=SPEC, **status):
    made = {"conditions": [condition(*c) for c in conditions], **status}
    return kube.put(port.SWEEP, name, namespace, metadata={"uid": UID, **(meta or {})}, spec=spec, status=made)


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def stuck_pod(kube):
    body = pod_body("h", head=True, unscheduled="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    body["metadata"]["labels"] |= labels.identity("digits", UID, 1)
    body["metadata"]["creationTimestamp"] = AT
    kube.put(port.POD, "h", metadata=body["metadata"], status=body["status"])
    kube.put(port.RAY_JOB, rayjob_name("digits", UID, 1), status={"jobDeploymentStatus": "Initializing"})


def test_why_prints_the_lowest_layer_its_cure_and_the_chain(kube):
    put(kube, ("Succeeded", "Unknown", "Starting"), attempt=1)
    stuck_pod(kube)
    done = invoke("why", "digits")
    assert done.exit_code == 1, done.output
    lines = done.output.splitlines()
    assert lines[0] == "team-a/digits waits at Placement: InsufficientResources"
    assert "0 of 1 nodes fit: 1 without enough nvidia.com/gpu" in lines[1]
    assert lines[2].startswith("  do: ")
    assert [line.split()[0] for line in lines[4:] if not line.startswith("->")][:2] == ["Spec", "ClassLimit"]
    told = json.loads(invoke("why", "digits", "-o", "json").output)
    assert (told["waits"], told["layer"], len(told["chain"])) == (True, "Placement", 10)


def test_why_says_what_the_caller_may_not_read(kube):
    put(kube, attempt=1)
    stuck_pod(kube)
    kube.fault = lambda verb, kind, name: port.Denied("no") if kind is port.EVENT else None
    assert "NodeSupply  not readable Event: no right to list events in team-a" in invoke("why", "digits").output


def test_why_has_nothing_to_say_of_a_sweep_that_runs_or_is_finished_and_fails_for_none(kube):
    put(kube, ("Succeeded", "Unknown", "Running"), attempt=1)
    assert (invoke("why", "digits").exit_code, invoke("why", "nobody").exit_code) == (0, 1)
    put(kube, ("Finished", "True", "Completed"), attempt=1)
    assert "finished" in invoke("why", "digits").output
    kube.fault = lambda verb, kind, name: port.Unavailable("503")
    assert invoke("why", "digits").exit_code == 3


def test_list_adds_up_gpus_over_namespaces(kube):
    put(kube, ("Succeeded", "Unknown", "Running"), usage={"gpus": 2, "gpuSeconds": 5400}, trials={"summary": "1/4"})
    put(kube, ("Finished", "True", "Completed"), namespace="team-b", name="old", usage={"gpuSeconds": 3600})
    rows = json.loads(invoke("list", "-A", "-o", "json").output)
    assert [(r["namespace"], r["name"], r["gpus"], r["gpuHours"]) for r in rows] == [
        ("team-a", "digits", 2, 1.5),
        ("team-b", "old", 0, 1.0),
    ]
    assert [r["name"] for r in json.loads(invoke("list", "-A", "--active", "-o", "json").output)] == ["digits"]
    assert "2.50" in invoke("list", "-A").output
    assert invoke("list", "-A", "-n", "x").exit_code == 2


def test_suspend_and_resume_change_one_field_and_say_when_there_is_nothing_to_do(kube):
    put(kube, ("Succeeded", "Unknown", "Running"))
    assert invoke("suspend", "digits").exit_code == 0
    assert kube.find(port.SWEEP, "digits")["spec"]["suspend"] is True
    assert "already" in invoke("suspend", "digits").output
    assert invoke("resume", "digits").exit_code == 0
    assert "suspend" not in kube.find(port.SWEEP, "digits")["spec"]
    put(kube, ("Finished", "True", "Completed"))
    assert invoke("suspend", "digits").exit_code == 1


def test_retry_makes_a_finished_sweep_anew_with_another_run_key(kube):
    put(kube, ("Finished", "True", "Failed"), meta={"labels": {"team": "a"}, "annotations": {"note": "x"}})
    done = invoke("retry", "digits", "--run-key", "second", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["runKey"] == "second"
    made = kube.find(port.SWEEP, "digits")
    assert (made["spec"]["runKey"], made["metadata"]["labels"], "status" in made) == ("second", {"team": "a"}, False)
    assert made["metadata"]["uid"] != UID


def test_retry_leaves_what_git_keeps_and_ends_a_pause_of_a_live_sweep(kube):
    put(kube, ("Finished", "True", "Failed"), meta={"annotations": {"argocd.argoproj.io/tracking-id": "a:b"}})
    done = invoke("retry", "digits")
    assert (done.exit_code, "runKey there" in done.output) == (1, True)
    put(kube, ("Succeeded", "Unknown", "Retrying"), deadlines={"retry": AT})
    assert invoke("retry", "digits").exit_code == 0
    assert labels.RETRY_NOW in kube.find(port.SWEEP, "digits")["metadata"]["annotations"]
    put(kube, ("Succeeded", "Unknown", "Running"))
    assert invoke("retry", "digits").exit_code == 1


def manifest(spec, tmp_path):
    body = {"apiVersion": "trainsweep.io/v1alpha1", "kind": "TrainSweep", "metadata": {"name": "digits"}, "spec": spec}
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(body))
    return str(file)


def test_diff_tells_what_is_immutable_and_when_the_rest_acts(kube, tmp_path):
    put(kube, attempt=1)
    other = raw(objective={"metric": "loss", "mode": "Maximize"}, deadlines={"runSeconds": 60})
    other["training"]["image"] = "registry.example/train:9"
    done = invoke("diff", manifest(other, tmp_path), "-o", "json")
    assert done.exit_code == 1, done.output
    effects = {c["path"]: c["effect"] for c in json.loads(done.output)["changes"]}
    assert effects == {
        "spec.objective.metric": "Immutable",
        "spec.deadlines.runSeconds": "AtOnce",
        "spec.training.image": "NextAttempt",
    }
    assert "REFUSED" in invoke("diff", manifest(other, tmp_path)).output
    assert invoke("diff", manifest(SPEC, tmp_path)).exit_code == 0


def test_every_immutable_field_of_the_crd_is_known_to_diff():
    paths = {path for path, _ in fixed()}
    assert {"spec.objective", "spec.search", "spec.runKey", "spec.className", "spec.training.config"} <= paths
    assert all(advice for _, advice in fixed())
    found = changes({"trials": {"count": 4}}, {"trials": {"count": 5}}, launched=True)
    assert [(c.path, c.effect) for c in found] == [("spec.trials.count", "Immutable")]


@pytest.fixture
def run(tmp_path, kube):
    root = tmp_path / SWEEP.namespace / SWEEP.name / SWEEP.run
    root.mkdir(parents=True)

    def write(key, data):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)

    made = Run(FileStore(parse_uri(f"file://{root}")), write, lambda key: (root / key).unlink())
    made.trial(0, [0.5, 0.75])
    kube.put(port.SWEEP, "digits", metadata={"uid": UID}, spec=SPEC,
             status={"run": SWEEP.run, "runURI": made.store.location.uri, "attempt": 1})  # fmt: skip
    return made


def test_download_brings_the_best_checkpoint_and_compares_every_byte(run, tmp_path):
    run.settle(run.receipt())
    target = tmp_path / "out"
    done = invoke("download", "digits", "best", str(target), "-o", "json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    files = sorted(p for p in target.rglob("*") if p.is_file())
    assert len(files) == told["files"] > 0
    assert sum(p.stat().st_size for p in files) == told["bytes"]
    assert invoke("download", "digits", "best", str(target)).exit_code == 2, "the folder is not empty"
    assert invoke("download", "digits", "nobody", str(tmp_path / "x")).exit_code == 1


def test_download_leaves_nothing_of_a_damaged_checkpoint(run, tmp_path):
    receipt = run.receipt()
    run.settle(receipt)
    owed = receipt["owed"][0]
    key = f"{owed['checkpoint']}/{owed['files'][-1]['path']}"
    data = b"".join(run.store.chunks(key))
    run.put(key, bytes([data[0] ^ 1]) + data[1:])
    assert hashlib.sha256(data).digest() != hashlib.sha256(b"".join(run.store.chunks(key))).digest()
    done = invoke("download", "digits", "best", str(tmp_path / "out"))
    assert done.exit_code == 1, done.output
    assert "receipt" in done.output
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob("*.part"))


def test_download_needs_a_receipt(run, tmp_path):
    assert invoke("download", "digits", "best", str(tmp_path / "out")).exit_code == 1


def test_the_reference_page_is_what_the_commands_say():
    text = reference.page()
    assert (generate.ROOT / reference.PAGE).read_text(encoding="utf-8") == text, "run `make generate`"
    assert all(f"## `trainsweep {name}`" in text for name in ("why", "list", "suspend", "resume", "retry", "diff"))
    for part in text.split("## `trainsweep ")[1:]:
        assert "Exit codes: " in part, part[:40]


def test_kubectl_finds_the_same_program():
    project = (Path(reference.__file__).resolve().parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'kubectl-trainsweep = "trainsweep.cli.main:app"' in project
    assert "--install-completion" in invoke("--help").output
