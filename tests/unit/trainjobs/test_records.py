"""The record of trials: on disk before anybody acts, counted by the spec, refused where it is another sweep's."""

import json

import pytest

from tests.unit.trainjobs.builders import Place, sweep
from trainjobs.outcome import DriverError
from trainjobs.records import Records


def test_a_proposal_is_in_the_store_before_propose_returns(tmp_path):
    place = Place(tmp_path)
    place.records.propose(0, {"x": 0.25})
    (line,) = (tmp_path / "trials.jsonl").read_text().splitlines()
    assert json.loads(line)["parameters"] == {"x": 0.25}
    assert json.loads(line)["state"] == "Proposed"


def test_a_later_attempt_finds_everything_and_runs_only_what_is_left(tmp_path):
    place = Place(tmp_path)
    place.records.propose(0, {"x": 0.1})
    place.records.report(0, 3, 0.5)
    place.records.update(0, state="Succeeded")
    place.records.propose(1, {"x": 0.2})
    place.records.update(1, state="Running", rungs={"1": 0.7})
    place.records.flush()
    later = Records(place.store, sweep(attempt=2))
    later.load()
    assert later.unfinished() == [1, 2, 3]
    assert later.get(0).best_value == 0.5
    assert later.get(1).rungs == {"1": 0.7}


def test_counts_come_from_the_spec(tmp_path):
    records = Place(tmp_path).records
    for index, state in enumerate(["Succeeded", "EarlyStopped", "Running"]):
        records.propose(index, {"x": 0.1 * index})
        records.update(index, state=state)
    counts = records.counts()
    assert (counts.expected, counts.succeeded, counts.early_stopped, counts.running, counts.pending) == (4, 1, 1, 1, 1)


def test_best_value_follows_the_direction(tmp_path):
    records = Place(tmp_path).records
    records.propose(0, {"x": 0.1})
    for epoch, value in enumerate([0.5, 0.2, 0.4], 1):
        records.report(0, epoch, value)
    assert (records.get(0).value, records.get(0).best_value, records.get(0).step) == (0.4, 0.2, 3)


def test_a_record_of_another_configuration_is_refused(tmp_path):
    place = Place(tmp_path)
    place.records.propose(0, {"x": 0.1})
    other = Records(place.store, sweep(training={"entrypoint": "train:train_loop", "config": {"epochs": 9}}))
    with pytest.raises(DriverError, match="t0000 was recorded with another configuration"):
        other.load()


def test_nothing_is_written_when_nothing_changed(tmp_path):
    records = Place(tmp_path).records
    records.propose(0, {"x": 0.1})
    before = (tmp_path / "trials.jsonl").stat().st_mtime_ns
    records.update(0, state="Proposed")
    records.flush()
    assert (tmp_path / "trials.jsonl").stat().st_mtime_ns == before
