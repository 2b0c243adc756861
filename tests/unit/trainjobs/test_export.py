"""The export: what the driver copies, what it writes down, and what the operator's own look says of the copy."""

import asyncio
import dataclasses
import json

import pytest

from tests.unit.trainjobs.builders import RUN, Place
from trainjobs.export import export
from trainjobs.settle import settle, write_receipt
from trainsweep.api.workload import Depth, Require
from trainsweep.contract.documents import ExportRecord, Outcome
from trainsweep.contract.layout import parse_uri
from trainsweep.core.model import ExportState
from trainsweep.runtime.export_look import look_at_export
from trainsweep.runtime.store import FileStore as Reader
from trainsweep.runtime.verify import Target, in_thread


class Exported:
    """A run in a folder, settled, with an export to another folder."""

    def __init__(self, folder, require=Require.BEST_TRIAL, **changes):
        self.place = Place(folder / "run", checkpoints={"require": require.value}, **changes)
        self.place.trial(0, [0.9, 0.4, 0.5])
        self.best = f"{self.place.trial(1, [0.8, 0.2, 0.3])}/checkpoint_2"
        self.out = folder / "models" / "default" / "demo" / RUN
        file = self.place.sweep.file.model_copy(update={"export_uri": f"file://{self.out}"})
        self.sweep = dataclasses.replace(self.place.sweep, file=file)
        self.settlement = settle(self.place.store, self.sweep, self.place.records, Outcome.COMPLETED)
        write_receipt(
            self.place.store,
            self.sweep,
            self.place.records,
            self.settlement,
            sequence=1,
            outcome=Outcome.COMPLETED,
            reason="",
            message="",
        )
        self.target = Target(
            file.sweep, file.attempt_id, "loss", "Minimize", require, depth=Depth.CHECKSUMS, expected_trials=4
        )

    def make(self, **options):
        return export(self.place.store, self.sweep, self.place.records, self.settlement, **options)

    def look(self):
        run, copies = (Reader(parse_uri(f"file://{path}")) for path in (self.place.root, self.out))
        return asyncio.run(look_at_export(run, copies, self.target, in_thread))

    @property
    def folder(self):
        return self.out / "/".join(self.best.split("/")[-2:])


def test_the_best_proven_checkpoint_is_copied_with_its_manifest_and_found_proven(tmp_path):
    run = Exported(tmp_path)
    assert run.look().state is ExportState.ABSENT
    record = run.make()
    assert (record.state, record.checkpoint, record.trial, record.step, record.value) == (
        "Copied",
        run.best,
        "t0001",
        2,
        0.2,
    )
    assert sorted(p.name for p in run.folder.iterdir()) == ["state.bin", "trainsweep-manifest.json"]
    assert (run.folder / "state.bin").read_bytes() == b"1/2"
    beside = ExportRecord.model_validate_json((run.out / "export.json").read_bytes())
    assert beside == record
    assert beside.parameters == {"x": 0.1}
    found = run.look()
    assert (found.state, found.files, found.uri) == (ExportState.PROVEN, 2, f"file://{run.folder}")


def test_with_all_succeeded_only_the_best_of_them_is_exported(tmp_path):
    run = Exported(tmp_path, Require.ALL_SUCCEEDED)
    assert len(run.settlement.owed) == 2
    assert run.make().checkpoint == run.best
    assert run.look().state is ExportState.PROVEN


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda f: (f / "state.bin").unlink(), "Absent"),
        (lambda f: (f / "state.bin").write_bytes(b"x"), "WrongSize"),
        (lambda f: (f / "state.bin").write_bytes(b"9/9"), "WrongChecksum"),
        (lambda f: (f / "trainsweep-manifest.json").unlink(), "Absent"),
    ],
)
def test_a_copy_that_is_not_the_original_is_never_proven(tmp_path, harm, words):
    run = Exported(tmp_path)
    run.make()
    harm(run.folder)
    found = run.look()
    assert (found.state, words in found.message) == (ExportState.FAILED, True)


def test_a_record_that_names_another_checkpoint_or_attempt_proves_nothing(tmp_path):
    run = Exported(tmp_path)
    run.make()
    key = run.place.root / "attempts" / run.target.attempt_id / "export.json"
    written = json.loads(key.read_text())
    key.write_text(json.dumps({**written, "checkpoint": "train/t0000-x/checkpoint_1"}))
    assert run.look().state is ExportState.FAILED
    key.write_text(json.dumps({**written, "attemptId": "2-0a1b2c3d"}))
    assert run.look().state is ExportState.UNKNOWN


def test_a_place_that_cannot_be_written_fails_the_export_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("trainjobs.export.PATIENCE", 0.0)
    run = Exported(tmp_path)
    (tmp_path / "models").write_text("a file where a folder must be")
    record = run.make()
    assert (record.state, record.files) == ("Failed", [])
    found = run.look()
    assert (found.state, "could not copy" in found.message) == (ExportState.FAILED, True)


def test_an_export_ends_with_the_hold(tmp_path):
    run = Exported(tmp_path, cleanup={"holdSeconds": 600})
    ticks = iter([0.0, 1.0, 601.0])
    record = run.make(clock=lambda: next(ticks))
    assert (record.state, "1 of 2 files" in record.message, "holdSeconds" in record.message) == ("Failed", True, True)
    assert not (run.out / "export.json").exists()


def test_nothing_is_exported_that_was_not_asked_for_or_has_no_value(tmp_path):
    run = Exported(tmp_path)
    run.sweep = run.place.sweep
    assert run.make() is None
    other = Exported(tmp_path / "other")
    other.settlement = dataclasses.replace(other.settlement, owed=())
    assert other.make() is None


def test_an_export_again_replaces_the_copy(tmp_path):
    run = Exported(tmp_path)
    run.make()
    (run.folder / "state.bin").write_bytes(b"9/9")
    run.make()
    assert run.look().state is ExportState.PROVEN


def test_a_folder_is_not_exported_to_s3(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    run = Exported(tmp_path)
    file = run.sweep.file.model_copy(update={"export_uri": "s3://models/x"})
    run.sweep = dataclasses.replace(run.sweep, file=file)
    assert "to a folder" in run.make().message
