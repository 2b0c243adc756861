"""Trackers: what MLflow, TensorBoard and W&B keep is read back with their own readers; their faults harm nothing."""

import logging
import struct
import threading
import time

import pytest

from tests.unit.trainjobs.builders import Place
from trainjobs.records import Records
from trainjobs.tracking import hub as module
from trainjobs.tracking.hub import GIVE_UP, Hub, wanted

pytestmark = pytest.mark.slow


@pytest.fixture
def warnings(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("trainjobs"), "propagate", True)
    return caplog


def train(place, records=None) -> None:
    """Two trials as the driver books them: one ends well, one fails."""
    records = records or place.records
    records.propose(0, {"x": 0.25})
    records.update(0, state="Running")
    for epoch, value in enumerate([0.5, 0.25, 0.375], 1):
        records.report(0, epoch, value, metrics={"acc(B)/top": 1 - value})
    records.update(0, state="Succeeded")
    records.propose(1, {"x": 0.75})
    records.update(1, state="Running")
    records.update(1, state="Failed", error="out of memory")


def follow(tmp_path, tracking):
    place = Place(tmp_path / "run", tracking=tracking)
    place.records.listener = hub = Hub(place.sweep, place.store)
    train(place)
    assert hub.close(120), "all was told"
    return place


def test_without_tracking_nothing_starts(tmp_path):
    place = Place(tmp_path)
    assert wanted(place.sweep) == []
    before = threading.active_count()
    place.records.listener = hub = Hub(place.sweep, place.store)
    train(place)
    assert threading.active_count() == before
    assert hub.close(1)


class Recorded:
    """A tracker that remembers what it was told."""

    name = "recorded"

    def __init__(self, sweep, store):
        self.told = []

    def begin(self, trial):
        self.told.append(("begin", trial.index))

    def report(self, trial, metrics):
        self.told.append((trial.index, trial.step, metrics))

    def end(self, trial):
        self.told.append(("end", trial.index, trial.state))

    def close(self):
        self.told.append("close")


class Broken(Recorded):
    def report(self, trial, metrics):
        raise ConnectionError("no route")

    begin = end = report

    def close(self):
        raise SystemExit(1)


def test_every_event_is_told_once_and_in_order(tmp_path):
    place, made = Place(tmp_path), []
    place.records.listener = hub = Hub(
        place.sweep, place.store, [("a", lambda *where: made.append(Recorded(*where)) or made[0])]
    )
    train(place)
    assert hub.close(10)
    assert [e[:2] if e != "close" else e for e in made[0].told] == [
        ("begin", 0), (0, 1), (0, 2), (0, 3), ("end", 0), ("begin", 1), ("end", 1), "close",
    ]  # fmt: skip
    assert made[0].told[1][2] == {"loss": 0.5, "acc(B)/top": 0.5}


def test_a_tracker_that_fails_stops_neither_the_trials_nor_the_others(tmp_path, warnings):
    place, made = Place(tmp_path), []
    place.records.listener = hub = Hub(
        place.sweep,
        place.store,
        [("bad", Broken), ("good", lambda *where: made.append(Recorded(*where)) or made[0])],
    )
    train(place)
    assert hub.close(10)
    assert made[0].told[-1] == "close"
    assert place.records.get(0).state == "Succeeded"
    said = [r.message for r in warnings.records if "tracking.bad" in r.message]
    assert len(said) == GIVE_UP, "then it is left alone"
    assert said[-1].endswith("it is left alone from now on")


def test_a_tracker_that_hangs_delays_neither_reports_nor_the_end(tmp_path, warnings):
    class Hanging(Recorded):
        def begin(self, trial):
            time.sleep(30)

    place = Place(tmp_path)
    place.records.listener = hub = Hub(place.sweep, place.store, [("slow", Hanging)])
    began = time.monotonic()
    train(place)
    assert hub.close(0.2) is False
    assert time.monotonic() - began < 5
    assert "does not keep up" in warnings.text


def test_a_full_queue_drops_and_says_so_once(tmp_path, warnings, monkeypatch):
    monkeypatch.setattr(module, "QUEUE", 2)

    class Hanging(Recorded):
        def begin(self, trial):
            time.sleep(30)

    place = Place(tmp_path)
    place.records.listener = Hub(place.sweep, place.store, [("slow", Hanging)])
    train(place)
    assert [r.message for r in warnings.records].count(
        "tracking is more than 2 reports behind: some will be missing there"
    ) == 1


def test_a_missing_package_is_named_with_its_cure(tmp_path, warnings, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    follow(tmp_path, {"mlflow": {"uri": f"file://{tmp_path}/mlflow"}})
    assert "tracking.mlflow" in warnings.text
    assert "install trainsweep[tracking] in the training image" in warnings.text


@pytest.mark.timeout(600)  # MLflow's import alone can take minutes on a busy machine
def test_mlflow_has_one_run_a_trial_and_continues_it(tmp_path, warnings):
    uri = f"file://{tmp_path}/mlflow"
    place = follow(tmp_path, {"mlflow": {"uri": uri, "experiment": "digits"}})
    assert "tracking.mlflow" not in warnings.text
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("digits").experiment_id
    runs = {r.info.run_name: r for r in client.search_runs([experiment])}
    assert {name: r.info.status for name, r in runs.items()} == {"t0000": "FINISHED", "t0001": "FAILED"}
    assert runs["t0000"].data.params == {"x": "0.25"}
    history = client.get_metric_history(runs["t0000"].info.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(1, 0.5), (2, 0.25), (3, 0.375)]
    assert runs["t0000"].data.metrics["acc_B_/top"] == 0.625
    assert runs["t0001"].data.tags["trainsweep.error"] == "out of memory"

    # A later attempt goes on with an interrupted trial in the same run.
    later = Records(place.store, place.sweep)
    later.load()
    later.listener = hub = Hub(place.sweep, place.store)
    later.propose(2, {"x": 0.1})
    later.update(2, state="Running")
    later.report(2, 1, 0.9)
    assert hub.close(60)
    interrupted = client.search_runs([experiment], "tags.`trainsweep.trial` = 't0002'")
    assert [r.info.status for r in interrupted] == ["KILLED"]
    later.update(2, state="Proposed")
    later.listener = hub = Hub(place.sweep, place.store)
    later.update(2, state="Running")
    later.report(2, 2, 0.8)
    later.update(2, state="Succeeded")
    assert hub.close(60)
    (found,) = client.search_runs([experiment], "tags.`trainsweep.trial` = 't0002'")
    assert found.info.status == "FINISHED"
    assert [m.step for m in client.get_metric_history(found.info.run_id, "loss")] == [1, 2]


def test_tensorboard_reads_what_lies_in_the_run(tmp_path, warnings):
    place = follow(tmp_path, {"tensorboard": {}})
    assert "tracking.tensorboard" not in warnings.text
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(place.root / "tensorboard" / "t0000"))
    seen.Reload()
    assert [(e.step, e.value) for e in seen.Scalars("loss")] == [(1, 0.5), (2, 0.25), (3, 0.375)]
    assert "acc_B_/top" in seen.Tags()["scalars"]
    best = EventAccumulator(str(place.root / "tensorboard" / "t0000" / "best"))
    best.Reload()
    assert [e.value for e in best.Scalars("best/loss")] == [0.25]


def entries(text: bytes):
    """The records of a .wandb file: LevelDB's log, after a header of seven bytes."""
    assert text[:4] == b":W&B"
    at, parts = 7, []
    while at + 7 <= len(text):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, kind = struct.unpack_from("<IHB", text, at)
        parts.append(text[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield b"".join(parts)
            parts = []


@pytest.mark.timeout(600)
def test_wandb_offline_leaves_runs_that_can_be_synced(tmp_path, warnings, monkeypatch):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    place = follow(tmp_path, {"wandb": {"project": "sweeps", "offline": True}})
    assert "tracking.wandb" not in warnings.text
    from wandb.proto import wandb_internal_pb2

    files = sorted((place.root / "wandb").glob("offline-run-*/run-*.wandb"))
    assert [f.name for f in files] == [f"run-v1-0123456789abcdef-t000{i}.wandb" for i in (0, 1)]
    history, codes, config = [], [], {}
    for data in entries(files[0].read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            history.append({(i.key or "/".join(i.nested_key)): i.value_json for i in record.history.item})
        elif kind == "exit":
            codes.append(record.exit.exit_code)
        elif kind == "run":
            config |= {i.key: i.value_json for i in record.run.config.update}
            assert record.run.project == "sweeps"
            assert record.run.run_group == "demo-v1-0123456789abcdef"
    assert [(h["epoch"], h["loss"]) for h in history] == [("1", "0.5"), ("2", "0.25"), ("3", "0.375")]
    assert codes == [0]
    assert config["x"] == "0.25"
