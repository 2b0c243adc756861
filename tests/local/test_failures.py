"""Loops, entrypoints and stores that are wrong: each ends with a reason, none with a hang or a lost sweep."""

import pytest

from tests.local.harness import ROOT, Run, example
from trainsweep.contract.documents import EXIT_PERMANENT

pytestmark = [pytest.mark.ray, pytest.mark.timeout(3600)]

LOOPS = ROOT / "tests" / "local" / "loops"


def spec_of(**training):
    spec = example("tiny")
    spec["training"] = {**spec["training"], **training}
    return spec


def test_C8_a_bad_report_fails_its_trial_and_not_the_sweep(tmp_path, cluster):
    spec = spec_of(entrypoint="odd:train_loop")
    # One of each way that a failure takes; what else a report may hold is `test_a_report_that_cannot_be_used_is_named`.
    kinds = ["plain", "near", "nan", "array", "raises", "silent"]
    spec["search"]["parameters"] = [{"name": "how", "categorical": {"values": kinds}}]
    spec["failurePolicy"] = {"trialRetries": 0, "workerRestarts": 0}
    run = Run(tmp_path, spec, LOOPS, name="odd")
    try:
        run.start(cluster=cluster)
        receipt, digest = run.receipt()
        errors = {t["parameters"]["how"]: t["error"] for t in run.trials() if t["state"] == "Failed"}
        assert set(errors) == set(kinds) - {"plain"}
        assert "reported: Loss, epoch; expected: loss (is Loss meant?)" in errors["near"]
        assert "reported: loss = 'a ndarray of shape (2,)'; expected: a finite number" in errors["array"]
        assert "reported: loss = nan; expected: a finite number" in errors["nan"]
        assert "the data is not there" in errors["raises"]
        assert "without a report; expected: loss" in errors["silent"]
        assert (receipt.trials.succeeded, receipt.trials.failed) == (1, 5)
        # Without a manifest and without an epoch: listed from its bytes, counted by its reports.
        (owed,) = receipt.owed
        assert (owed.step, owed.value) == (2, 0.25)
        assert [(f.path, f.size) for f in owed.files] == [("weights.bin", 10)]
        assert {c.algorithm for c in owed.files[0].checksums} >= {"SHA256", "CRC32"}
        run.answer(digest)
        end = run.end()
        assert (end["seen"], end["outcome"]) == (0, "Completed")
        assert "5 of 6 trials failed" in end["message"]
    finally:
        run.kill()


@pytest.mark.parametrize(
    ("training", "text"),
    [
        ({"entrypoint": "no_such_module:train_loop"}, "No module named 'no_such_module'"),
        ({"entrypoint": "train:no_such_loop"}, "train has no function no_such_loop"),
    ],
)
def test_a_wrong_entrypoint_is_permanent_and_named(tmp_path, training, text):
    run = Run(tmp_path, spec_of(**training), ROOT / "examples" / "tiny")
    run.start()
    end = run.end()
    assert (end["seen"], end["reason"]) == (EXIT_PERMANENT, "BadEntrypoint"), run.text()
    assert text in end["message"]
    assert text in run.text().strip().splitlines()[-1]


def test_a_missing_bucket_is_permanent_and_named_in_the_last_line(tmp_path):
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)  # an extra; CI has it and fails on a skip
    server.start()
    try:
        _, port = server.get_host_and_port()
        run = Run(tmp_path, spec_of(), ROOT / "examples" / "tiny", uri="s3://nowhere/p")
        run.store = {"uri": run.uri, "endpointURL": f"http://127.0.0.1:{port}"}
        run.env = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        run.start()
        assert run.exit_code() == EXIT_PERMANENT  # there is no bucket to read an end.json from
        last = run.text().strip().splitlines()[-1]
        assert "StorageDenied" in last
        assert "bucket nowhere does not exist" in last
    finally:
        server.stop()
