"""The operator's part beside a local driver, and the end of a local run, against a store on disk."""

import json
from pathlib import Path

import pytest

from tests.unit.runtime.runs import ATTEMPT, SWEEP, UID, Run, target
from trainsweep.cli import judge as judging
from trainsweep.cli.exits import Exit
from trainsweep.cli.inputs import Input
from trainsweep.cli.judge import Judge
from trainsweep.cli.run_command import Prepared, next_attempt, result, storage_uri
from trainsweep.contract.documents import Control, StoreRef, SweepFile
from trainsweep.contract.layout import parse_uri
from trainsweep.contract.owed import Require
from trainsweep.core.model import Proof
from trainsweep.runtime.store import FileStore


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "store"
    root.mkdir()

    def put(key, data):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)

    made = Run(FileStore(parse_uri(f"file://{root}")), put, lambda key: (root / key).unlink())
    made.trial(0, [0.5, 0.75])
    made.trial(1, [0.25])
    return made


@pytest.fixture
def judge(run, tmp_path):
    file = tmp_path / "control.json"
    file.write_bytes(Control(attempt_id=ATTEMPT).to_json())
    return Judge(run.store, target(), file)


def beat(run, phase="WaitingForVerdict", digest=None, attempt=ATTEMPT):
    body = {"attemptId": attempt, "phase": phase, "heartbeatAt": 1.0, "trials": {"expected": 3}}
    run.put("progress.json", json.dumps(body | ({"receiptDigest": digest} if digest else {})).encode())


def control(judge):
    return Control.model_validate_json(judge.control_file.read_bytes())


def test_a_waiting_driver_gets_its_verdict_bound_to_the_receipt(run, judge):
    digest = run.settle(run.receipt())
    beat(run, digest=digest)
    judge.poll()
    assert control(judge).verdict.result == "Persisted"
    assert control(judge).verdict.receipt_digest == digest
    assert judge.final_look().verified == 1


def test_a_driver_that_still_trains_gets_none(run, judge):
    beat(run, phase="Running")
    judge.poll()
    assert control(judge).verdict is None
    assert judge.progress.phase == "Running"


def test_a_damaged_file_is_named(run, judge):
    digest = run.settle(run.receipt())
    (key,) = [o["checkpoint"] for o in run.receipt()["owed"]]
    run.put(f"{key}/model.pt", b"x" * len(run.files[key]["model.pt"]))
    beat(run, digest=digest)
    judge.poll()
    found = control(judge).verdict
    assert found.result == "Missing"
    assert [(m.file, m.problem) for m in found.missing] == [("model.pt", "WrongChecksum")]


def test_a_mended_receipt_is_looked_at_again(run, judge, monkeypatch):
    monkeypatch.setattr(judging, "RELOOK_SECONDS", 0.0)
    first = run.settle(run.receipt())
    (key,) = [o["checkpoint"] for o in run.receipt()["owed"]]
    good = run.files[key]["model.pt"]
    run.put(f"{key}/model.pt", b"short")
    beat(run, digest=first)
    judge.poll()
    run.put(f"{key}/model.pt", good)
    second = run.settle(run.receipt(writtenAt=2.0))
    beat(run, digest=second)
    judge.poll()
    assert (control(judge).verdict.result, control(judge).verdict.receipt_digest) == ("Persisted", second)


def test_a_digest_that_the_receipt_does_not_have_gets_no_verdict(run, judge):
    run.settle(run.receipt())
    beat(run, digest="0" * 64)
    judge.poll()
    assert control(judge).verdict is None
    assert judge.settlement.proof is Proof.UNKNOWN


def test_an_earlier_attempts_heartbeat_is_not_this_ones(run, judge):
    beat(run, digest=run.settle(run.receipt()), attempt="9-0b0e6c1e")
    judge.poll()
    assert judge.progress is None
    assert control(judge).verdict is None


def test_a_stop_and_a_verdict_do_not_hide_each_other(run, judge):
    judge.ask_to_stop("Interrupted", 5)
    beat(run, digest=run.settle(run.receipt()))
    judge.poll()
    assert (control(judge).stop.reason, control(judge).verdict.result) == ("Interrupted", "Persisted")


def test_hostile_progress_is_no_crash(run, judge):
    run.put("progress.json", b"[" * 4000)
    judge.poll()
    assert judge.progress is None


def prepared(run, tmp_path, require="BestTrial", on_missing="Fail"):
    from tests.unit.render.render_builders import raw
    from trainsweep.api.resolve import resolve

    spec = resolve(
        raw(
            objective={"metric": "acc", "mode": "Maximize"},
            checkpoints={"require": require, "verify": {"onMissing": on_missing}},
        ),
        None,
    )
    file = SweepFile(
        sweep=SWEEP,
        attempt=1,
        attempt_id=ATTEMPT,
        store=StoreRef(uri=run.store.location.uri),
        spec={},
        trial_resource=None,
    )
    found = Input("f", None, "digits", "team-a", {}, None, spec)
    return Prepared(found, run.store.location, run.store, file, tmp_path)


def end(run, outcome="Completed", code=0):
    body = {"attemptId": ATTEMPT, "outcome": outcome, "endedAt": 1.0, "exitCode": code}
    run.put(f"attempts/{ATTEMPT}/end.json", json.dumps(body).encode())


def test_success_needs_a_good_end_and_the_proof(run, judge, tmp_path):
    run.settle(run.receipt())
    end(run)
    code, out = result(prepared(run, tmp_path), 0, judge)
    assert code is Exit.OK
    assert (out["outcome"], out["verified"], out["proven"], out["files"]) == ("Completed", True, 1, 3)


@pytest.mark.parametrize(("outcome", "code"), [("Stopped", 5), ("MaxFailedTrials", 1), ("Completed", 1)])
def test_proof_alone_is_no_success(run, judge, tmp_path, outcome, code):
    run.settle(run.receipt(outcome=outcome))
    end(run, outcome, code)
    assert result(prepared(run, tmp_path), code, judge)[0] is Exit.FAILED


def test_a_good_end_without_the_file_is_a_failure_that_names_it(run, judge, tmp_path):
    run.settle(run.receipt())
    (key,) = [o["checkpoint"] for o in run.receipt()["owed"]]
    run.delete(f"{key}/model.pt")
    end(run)
    code, out = result(prepared(run, tmp_path), 0, judge)
    assert code is Exit.FAILED
    assert out["missing"] == [f"{key}/model.pt: Absent"]
    judge.settlement = None
    assert result(prepared(run, tmp_path, on_missing="Warn"), 0, judge)[0] is Exit.OK


def test_a_driver_that_left_nothing_is_a_failure_with_its_inventory(run, judge, tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "INVENTORY_APART", 0.0)
    code, out = result(prepared(run, tmp_path), -9, judge)
    assert code is Exit.FAILED
    assert (out["outcome"], out["proof"]) == ("Unknown", "Persisted")
    assert "left no end.json" in out["message"]


def test_nothing_owed_is_no_success_unless_nothing_was_asked_for(tmp_path):
    root = tmp_path / "empty"
    root.mkdir()

    def put(key, data):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(data)

    run = Run(FileStore(parse_uri(f"file://{root}")), put, lambda key: None)
    run.trial(0, [])
    run.settle(run.receipt())
    end(run)
    judge = Judge(run.store, target(), tmp_path / "c")
    code, out = result(prepared(run, tmp_path), 0, judge)
    assert (code, out["verified"]) == (Exit.FAILED, False)
    assert "set require: None" in out["message"]
    judge = Judge(run.store, target(Require.NONE), tmp_path / "c")
    assert result(prepared(run, tmp_path, require="None"), 0, judge)[0] is Exit.OK


def test_a_further_run_is_a_further_attempt(run):
    assert next_attempt(run.store) == 1
    run.put(f"attempts/2-{UID[:8]}/start.json", b"{}")
    run.put("attempts/10-0b0e6c1e/start.json", b"{}")
    run.put("attempts/stranger/start.json", b"{}")
    assert next_attempt(run.store) == 11


def test_storage_is_a_folder_or_a_uri():
    assert storage_uri("s3://b/p") == "s3://b/p"
    assert storage_uri("/tmp/x") == "file:///tmp/x"
    assert storage_uri(None) == f"file://{Path.cwd()}/trainsweep-runs"
