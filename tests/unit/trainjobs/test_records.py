"""The record of trials: on disk before anybody acts, counted by the spec, refused where it is another sweep's."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.trainjobs.builders import Place, sweep
from trainjobs.outcome import DriverError
from trainjobs.records import CURVE_POINTS, Records, parse_records, thinned
from trainsweep.contract.documents import MAX_HISTORY


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


def test_the_best_epoch_keeps_its_other_metrics(tmp_path):
    records = Place(tmp_path).records
    records.propose(0, {"x": 0.1})
    for epoch, value in enumerate([0.5, 0.2, 0.4], 1):
        records.report(0, epoch, value, metrics={"accuracy": 1 - value}, seconds=float(epoch))
    record = records.get(0)
    assert (record.best_step, record.metrics, record.seconds) == (2, {"accuracy": 0.8}, 3.0)
    assert record.history == [(1, 0.5), (2, 0.2), (3, 0.4)]


def test_a_resumed_try_goes_on_with_the_curve_from_its_checkpoint(tmp_path):
    records = Place(tmp_path).records
    records.propose(0, {"x": 0.1})
    for epoch, value in [(1, 0.5), (2, 0.4), (3, 0.3), (2, 0.45), (3, 0.35)]:
        records.report(0, epoch, value)
    assert records.get(0).history == [(1, 0.5), (2, 0.45), (3, 0.35)]


def test_a_long_curve_is_thinned_and_survives_the_file(tmp_path):
    records = Place(tmp_path).records
    records.propose(0, {"x": 0.1})
    for epoch in range(1, 3001):
        records.report(0, epoch, 1 / epoch)
    records.flush()
    (found,) = parse_records((tmp_path / "trials.jsonl").read_bytes())
    steps = [step for step, _ in found.history]
    assert (len(steps), steps[0], steps[-1]) == (MAX_HISTORY, 1, 3000)
    gaps = [b - a for a, b in itertools.pairwise(steps)]
    assert max(gaps) <= 4 * 3000 / MAX_HISTORY, "no stretch of the curve is lost"


@given(st.lists(st.integers(0, 10_000), unique=True, max_size=80), st.integers(2, 40))
def test_thinning_keeps_order_and_both_ends(steps, limit):
    points = [(step, 0.0) for step in sorted(steps)]
    kept = thinned(points, limit)
    assert len(kept) == min(len(points), limit)
    assert set(kept) <= set(points)
    assert kept == sorted(kept)
    assert (kept[:1], kept[-1:]) == (points[:1], points[-1:])


def test_all_curves_together_are_bounded(tmp_path):
    place = Place(tmp_path, trials={"count": 10_000})
    place.records.propose(0, {"x": 0.1})
    for epoch in range(1, 50):
        place.records.report(0, epoch, 0.1)
    assert len(place.records.get(0).history) == CURVE_POINTS // 10_000


def test_an_end_is_stamped_once_however_it_came(tmp_path):
    records = Place(tmp_path).records
    records.propose(0, {"x": 0.1})
    assert records.get(0).ended_at is None
    ended = records.update(0, state="EarlyStopped").ended_at
    assert ended is not None
    assert records.update(0, state="EarlyStopped").ended_at == ended


def test_a_bad_line_is_named():
    with pytest.raises(ValueError, match="line 2"):
        parse_records(b"\n{}\n")


def test_a_file_of_an_older_driver_is_read(tmp_path):
    place = Place(tmp_path)
    place.records.propose(0, {"x": 0.1})
    (line,) = (tmp_path / "trials.jsonl").read_text().splitlines()
    old = {
        k: v for k, v in json.loads(line).items() if k not in ("history", "metrics", "seconds", "retries", "bestStep")
    }
    (found,) = parse_records(json.dumps(old).encode())
    assert (found.history, found.best_step, found.seconds) == ([], None, 0)
