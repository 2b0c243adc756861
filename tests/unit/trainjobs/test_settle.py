"""Settlement: what is owed, what is damaged, what the receipt says, and how a trial goes back before the damage."""

import hashlib
import json

import pytest

from tests.unit.trainjobs.builders import Place
from trainjobs.mend import retire, rewind
from trainjobs.settle import committed, look, point_to, settle, write_receipt
from trainsweep.contract.documents import Outcome, Receipt


def problems(settlement):
    return {(d.checkpoint.rpartition("/")[2], d.file, d.problem) for d in settlement.damaged}


def test_the_best_committed_checkpoint_is_owed_with_all_its_files(tmp_path):
    place = Place(tmp_path)
    place.trial(0, [0.9, 0.4, 0.5])
    run = place.trial(1, [0.8, 0.2, 0.3])
    found = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)
    (owed,) = found.owed
    assert (owed.trial, owed.step, owed.value, owed.checkpoint) == ("t0001", 2, 0.2, f"{run}/checkpoint_2")
    assert [f.path for f in owed.files] == ["state.bin", "trainsweep-manifest.json"]
    assert not found.damaged


def test_a_stop_owes_the_newest_of_unfinished_trials_too(tmp_path):
    place = Place(tmp_path)
    place.trial(0, [0.1])
    place.trial(1, [0.8, 0.9], state="Running")
    stopped = settle(place.store, place.sweep, place.records, Outcome.STOPPED)
    assert [(o.trial, o.step) for o in stopped.owed] == [("t0000", 1), ("t0001", 2)]
    assert len(settle(place.store, place.sweep, place.records, Outcome.COMPLETED).owed) == 1


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (lambda f: (f / "state.bin").unlink(), "Absent"),
        (lambda f: (f / "state.bin").write_bytes(b"x"), "WrongSize"),
    ],
)
def test_the_listing_finds_absent_and_cut_files(tmp_path, harm, expected):
    place = Place(tmp_path)
    run = place.trial(0, [0.5])
    harm(tmp_path / run / "checkpoint_1")
    found = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)
    assert problems(found) == {("checkpoint_1", "state.bin", expected)}
    assert found.owed  # still owed: the second look is to say the same


def test_other_bytes_of_the_same_length_are_found_by_reading(tmp_path):
    place = Place(tmp_path)
    run = place.trial(0, [0.5])
    (tmp_path / run / "checkpoint_1" / "state.bin").write_bytes(b"9/9")
    assert look(place.store, f"{run}/checkpoint_1", "t0000")[1] == []
    _, harm = look(place.store, f"{run}/checkpoint_1", "t0000", read=True)
    assert [d.problem for d in harm] == ["WrongChecksum"]


def test_a_rank_whose_upload_never_came_is_missed(tmp_path):
    place = Place(tmp_path)
    run = place.trial(0, [0.5])
    path = tmp_path / run / "checkpoint_1" / "trainsweep-manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "worldSize": 2}))
    found = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)
    assert problems(found) == {("checkpoint_1", "trainsweep-manifest-rank1.json", "Absent")}


def test_a_whole_directory_gone_is_damage_not_silence(tmp_path):
    place = Place(tmp_path)
    run = place.trial(0, [0.5])
    place.store.delete_tree(f"{run}/checkpoint_1")
    found = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)
    assert problems(found) == {("checkpoint_1", "trainsweep-manifest.json", "Absent")}


def test_a_checkpoint_without_a_manifest_is_listed_from_its_bytes(tmp_path):
    place = Place(tmp_path)
    place.trial(0, [0.5], manifest=False)
    (owed,) = settle(place.store, place.sweep, place.records, Outcome.COMPLETED).owed
    (entry,) = owed.files
    assert (entry.path, entry.size) == ("state.bin", 3)
    assert {c.algorithm for c in entry.checksums} >= {"SHA256", "CRC32"}


def test_receipt_is_write_once_bound_to_its_bytes_and_the_runs_newest(tmp_path):
    place = Place(tmp_path)
    place.trial(0, [0.5])
    settlement = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)

    def write(sequence):
        return write_receipt(
            place.store,
            place.sweep,
            place.records,
            settlement,
            sequence=sequence,
            outcome=Outcome.COMPLETED,
            reason="",
            message="",
        )

    receipt, digest = write(1)
    own = tmp_path / "attempts" / "1-0a1b2c3d" / "receipt.json"
    assert hashlib.sha256(own.read_bytes()).hexdigest() == digest
    assert own.read_bytes() == (tmp_path / "receipt.json").read_bytes()
    assert Receipt.model_validate_json(own.read_bytes()) == receipt
    assert receipt.best.parameters == {"x": 0.0}
    with pytest.raises(FileExistsError):
        write(1)
    _, second = write(2)
    assert hashlib.sha256((tmp_path / "receipt.json").read_bytes()).hexdigest() == second
    assert hashlib.sha256(own.read_bytes()).hexdigest() == digest


def test_the_pointer_never_goes_back_to_an_older_attempt(tmp_path):
    place = Place(tmp_path)
    new, old = b'{"attemptId":"3-0a1b2c3d"}', b'{"attemptId":"2-0a1b2c3d"}'
    point_to(place.store, 3, new)
    point_to(place.store, 2, old)
    assert (tmp_path / "receipt.json").read_bytes() == new
    again = b'{"attemptId":"1-ffffffff"}'  # created again: its numbers start anew
    point_to(place.store, 1, again)
    assert (tmp_path / "receipt.json").read_bytes() == again


def steps(place, index):
    record = next(r for r in place.records if r.index == index)
    return [c.step for c in committed(place.store, place.sweep, record)]


def test_mending_goes_back_before_the_damage_not_to_the_newest(tmp_path):
    """The best (epoch 3) is lost, a worse one after it is intact: epoch 3 has to be trained again."""
    place = Place(tmp_path)
    run = place.trial(0, [0.9, 0.5, 0.1, 0.4])
    record = next(iter(place.records))
    assert rewind(place.store, place.sweep, record, {f"{run}/checkpoint_3"}) == 2
    assert steps(place, 0) == [1, 2]
    snapshot = json.loads((tmp_path / run / "checkpoint_manager_snapshot.json").read_text())
    assert snapshot["latest_checkpoint_result"]["checkpoint_dir_name"] == "checkpoint_2"
    assert snapshot["current_report_index"] == 2
    assert len(snapshot["checkpoint_results"]) == len(snapshot["checkpoint_report_indices"]) == 2
    assert not (tmp_path / run / "checkpoint_3").exists()
    assert not (tmp_path / run / "checkpoint_4").exists()


def test_mending_trusts_no_older_checkpoint_unread(tmp_path):
    place = Place(tmp_path)
    run = place.trial(0, [0.9, 0.5, 0.1])
    (tmp_path / run / "checkpoint_2" / "state.bin").write_bytes(b"9/9")
    assert rewind(place.store, place.sweep, next(iter(place.records)), {f"{run}/checkpoint_3"}) == 1
    assert steps(place, 0) == [1]


def test_with_nothing_intact_before_it_the_trial_starts_anew(tmp_path):
    place = Place(tmp_path)
    run = place.trial(0, [0.1, 0.4])
    assert rewind(place.store, place.sweep, next(iter(place.records)), {f"{run}/checkpoint_1"}) == 0
    assert steps(place, 0) == []
    assert not (tmp_path / run).exists()


def test_retention_keeps_the_first_of_the_ranking_only(tmp_path):
    place = Place(tmp_path)
    runs = [place.trial(i, [0.1 * i]) for i in range(3)]
    assert retire(place.store, place.sweep, list(place.records), 1) == 2
    assert [(tmp_path / r).exists() for r in runs] == [True, False, False]


def test_f8_no_order_of_a_listing_matters(tmp_path, monkeypatch):
    place = Place(tmp_path)
    place.trial(0, [0.5, 0.3], files={f"shard-{n}.bin": bytes([n]) for n in range(40)})
    place.trial(1, [0.4])
    before = settle(place.store, place.sweep, place.records, Outcome.COMPLETED)
    listed = place.store.entries
    monkeypatch.setattr(place.store, "entries", lambda prefix: sorted(listed(prefix), key=lambda e: e.key[::-1]))
    assert settle(place.store, place.sweep, place.records, Outcome.COMPLETED) == before
    assert len(before.owed[0].files) == 41
