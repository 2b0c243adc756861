"""`trainsweep report`: fetched where there is one, made anew from the record where there is none."""

import json

import pytest
from typer.testing import CliRunner

from tests.unit.trainjobs.builders import Place
from trainjobs.settle import settle, write_receipt
from trainsweep.cli.main import app
from trainsweep.contract import layout
from trainsweep.contract.documents import End, Outcome


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / "runs" / "default" / "demo" / "v1-0123456789abcdef")
    made.trial(0, [0.5, 0.25])
    made.trial(1, [0.75], state="EarlyStopped")
    made.records.flush()
    made.store.put(layout.SWEEP, made.sweep.file.to_json())
    return made


def report(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def data(file) -> dict:
    text = file.read_text()
    return json.loads(text.partition('id="data">')[2].partition("</script>")[0])


def test_a_run_without_a_report_gets_one_from_its_record(place, tmp_path):
    done = report(place.root, "--save", tmp_path / "out.html")
    assert done.exit_code == 0, done.output
    found = data(tmp_path / "out.html")
    assert found["counts"]["succeeded"] == 1
    assert [row[0] for row in found["trials"]] == [0, 1]
    assert not (place.root / "report.html").exists(), "the store is only read"


def test_the_driver_s_own_report_is_fetched_unless_told_otherwise(place, tmp_path):
    place.store.put(layout.REPORT, b"<!doctype html>as the driver wrote it")
    uri = f"file://{place.root}/report.html"
    assert report(uri, "--save", tmp_path / "out.html").exit_code == 0
    assert (tmp_path / "out.html").read_bytes().endswith(b"as the driver wrote it")
    assert report(uri, "--rebuild", "--save", tmp_path / "out.html").exit_code == 0
    assert data(tmp_path / "out.html")["objective"]["metric"] == "loss"


def test_outcome_and_receipt_are_in_it(place, tmp_path):
    settlement = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)
    _, digest = write_receipt(
        place.store,
        place.sweep,
        place.records,
        settlement,
        sequence=1,
        outcome=Outcome.COMPLETED,
        reason="",
        message="",
    )
    own = place.sweep.file.attempt_id
    end = End(attempt_id=own, outcome=Outcome.COMPLETED, ended_at=1.0, verified=True)
    place.store.put(layout.attempt_key(own, layout.END), end.to_json())
    assert report(place.root, "--save", tmp_path / "out.html").exit_code == 0
    found = data(tmp_path / "out.html")
    assert (found["state"]["outcome"], found["state"]["proof"]) == ("Completed", "Persisted")
    assert (found["state"]["receipt"], found["state"]["owed"]) == (digest, 1)
    assert found["best"]["value"] == 0.25
    assert found["best"]["checkpoint"]


@pytest.mark.parametrize(
    ("break_it", "code", "said"),
    [
        (lambda root: (root / "sweep.json").unlink(), 1, "give the prefix of a run"),
        (lambda root: (root / "sweep.json").write_text("{}"), 1, "sweep.json"),
        (lambda root: (root / "trials.jsonl").write_text("no\nno\n"), 3, "trials.jsonl"),
    ],
)
def test_what_cannot_be_read_is_named(place, tmp_path, break_it, code, said):
    break_it(place.root)
    done = report(place.root, "--save", tmp_path / "out.html")
    assert done.exit_code == code
    assert said in done.output
    assert not (tmp_path / "out.html").exists()


def test_without_a_file_name_it_says_where_it_went(place):
    done = report(place.root)
    assert done.exit_code == 0
    assert done.output.strip().endswith("demo-report.html")
