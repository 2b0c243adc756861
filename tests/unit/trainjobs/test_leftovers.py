"""What killed attempts leave behind is cleared: never a committed checkpoint, never anything outside of the run."""

import json
import os
import time

import pytest

from tests.unit.trainjobs.builders import Place
from trainjobs import leftovers
from trainsweep.contract import layout

HOUR = 3600.0


def old(path, age=HOUR):
    for file in [path, *path.rglob("*")]:
        os.utime(file, (time.time() - age, time.time() - age))


def orphan(place, run, name="checkpoint_lost", age=HOUR):
    folder = place.root / run / name
    folder.mkdir(parents=True)
    (folder / "shard-0.bin").write_bytes(b"half")
    old(folder, age)
    return folder


@pytest.fixture
def place(tmp_path):
    found = Place(tmp_path)
    found.store.put(f"attempts/{found.sweep.file.attempt_id}/start.json", b"{}")
    return found


def clear(place, **options):
    return leftovers.clear(place.store, place.sweep, place.records, **options)


def test_a_folder_that_was_never_committed_goes_and_the_committed_ones_stay(place):
    run = place.trial(0, [0.5, 0.4], state="Running")
    lost = orphan(place, run)
    old(place.root / run)
    assert clear(place).folders == (f"{run}/checkpoint_lost",)
    assert not lost.exists()
    assert {p.name for p in (place.root / run).iterdir()} == {"checkpoint_1", "checkpoint_2", layout.SNAPSHOT}


def test_a_folder_that_changed_just_now_is_left_for_the_next_look(place):
    run = place.trial(0, [0.5])
    lost = orphan(place, run, age=10)
    assert clear(place).folders == ()
    assert lost.exists()


def test_a_run_whose_snapshot_cannot_be_read_is_not_touched(place):
    run = place.trial(0, [0.5])
    old(place.root / run)
    lost = orphan(place, run)
    (place.root / run / layout.SNAPSHOT).write_text("{half")
    assert clear(place).folders == ()
    assert lost.exists()


def test_without_a_snapshot_nothing_was_committed(place):
    record = place.records.propose(1, {"x": 0.1})
    run = f"train/{record.trial}-{record.config_hash}"
    orphan(place, run)
    assert clear(place).folders == (f"{run}/checkpoint_lost",)


def test_f1_runs_of_strangers_and_neighbours_are_not_touched(place):
    run = place.trial(0, [0.5])
    strange = [orphan(place, f"{run}-1x"), orphan(place, f"{run}x"), orphan(place, "train/t0009-abcdefabcd")]
    assert clear(place).folders == ()
    assert all(folder.exists() for folder in strange)


def test_after_a_settlement_only_suspects_are_read_again(place, monkeypatch):
    from trainjobs.settle import trial_states

    run, other = place.trial(0, [0.5]), place.trial(1, [0.4])
    orphan(place, other)
    states = trial_states(place.store, place.sweep, place.records)
    read = []
    real = place.store.get
    monkeypatch.setattr(place.store, "get", lambda key: read.append(key) or real(key))
    assert clear(place, states=states).folders == (f"{other}/checkpoint_lost",)
    assert read == [f"{other}/{layout.SNAPSHOT}"]
    assert (place.root / run / "checkpoint_1").exists()


def test_what_was_committed_since_the_settlement_stays(place):
    from trainjobs.settle import trial_states

    run = place.trial(0, [0.5])
    states = trial_states(place.store, place.sweep, place.records)
    late = orphan(place, run, "checkpoint_late")
    snapshot = json.loads((place.root / run / layout.SNAPSHOT).read_text())
    item = {"version": 0, "checkpoint_dir_name": "checkpoint_late", "metrics": {"epoch": 2, "loss": 0.1}}
    snapshot["checkpoint_results"].append(item)
    snapshot["checkpoint_report_indices"].append(1)
    (place.root / run / layout.SNAPSHOT).write_text(json.dumps(snapshot))
    assert clear(place, states=states).folders == ()
    assert late.exists()


def test_a_store_that_refuses_is_said_and_left(place, monkeypatch, caplog):
    from trainjobs.store import denied

    def refuse():
        raise denied("listing open uploads is denied")

    monkeypatch.setattr(place.store, "open_uploads", refuse)
    assert clear(place) == leftovers.Cleared()
    assert "leftovers of earlier attempts stay: listing open uploads is denied" in caplog.text
