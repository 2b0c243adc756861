"""A worker's side of a trial, with Ray's own functions replaced: reports, resume, the stop flag, finding the loop."""

import base64
import hashlib
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import trainjobs
from trainjobs import board, checkpoint, reporting, session
from trainjobs.checksums import sha256
from trainjobs.loop import find_loop, run_worker
from trainjobs.outcome import DriverError
from trainsweep.contract.documents import FailureReason, Manifest
from trainsweep.contract.snapshot import PARTIAL

real = reporting.tempfile.mkdtemp
pyarrow_fs = pytest.importorskip("pyarrow.fs")  # an extra; CI has it and fails on a skip
ray_train = pytest.importorskip("ray.train")  # an extra; CI has it and fails on a skip


class Sent(list):
    """Reports as they were made; `modes` holds Ray's options of each."""


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Rank 0 of one worker; what it reports is kept in a list."""
    sent, modes = Sent(), []
    sent.modes = modes

    storage = SimpleNamespace(
        storage_filesystem=pyarrow_fs.LocalFileSystem(), experiment_fs_path=str(tmp_path / "store")
    )

    def report(metrics, checkpoint=None, checkpoint_upload_fn=None, **options):
        files = {}
        if checkpoint is not None:
            persisted = checkpoint_upload_fn(checkpoint, str(len(sent)))
            files = {p.name: p.read_bytes() for p in Path(persisted.path).iterdir()}
        sent.append((metrics, files))
        modes.append(options)

    context = SimpleNamespace(
        get_world_rank=lambda: 0,
        get_world_size=lambda: 1,
        get_local_rank=lambda: 0,
        get_local_world_size=lambda: 1,
        get_storage=lambda: storage,
    )
    monkeypatch.setattr(ray_train, "report", report)
    monkeypatch.setattr(ray_train, "get_context", lambda: context)
    monkeypatch.setattr(ray_train, "get_checkpoint", lambda: None)
    session.begin(session.Session(trial="t0000", config_hash="0123456789", metric="loss", worst=9e99))
    yield sent
    session._current = None


def test_a_report_carries_epoch_checkpoint_and_manifest(worker):
    assert trainjobs.epochs is reporting.epochs
    trainjobs.report({"loss": 0.5}, state={"x": 1})
    trainjobs.report({"loss": 0.25}, state={"x": 2})
    assert [m for m, _ in worker] == [{"loss": 0.5, "epoch": 1}, {"loss": 0.25, "epoch": 2}]
    files = worker[1][1]
    manifest = Manifest.model_validate_json(files["trainsweep-manifest.json"])
    assert (manifest.step, manifest.config_hash) == (2, "0123456789")
    assert [(f.path, f.size) for f in manifest.files] == [("progress.json", len(files["progress.json"]))]
    assert json.loads(files["progress.json"])["metrics"] == {"loss": 0.25}


def test_tensors_become_numbers(worker):
    numpy = pytest.importorskip("numpy")  # an extra; CI has it and fails on a skip
    trainjobs.report({"loss": numpy.float32(0.5)}, state={})
    assert type(worker[0][0]["loss"]) is float


def test_C8_an_array_becomes_words_that_name_it(worker):
    """No exception here, as that would be tried again: as the objective the words end the trial at once."""
    numpy = pytest.importorskip("numpy")  # an extra; CI has it and fails on a skip
    trainjobs.report({"loss": 0.5, "many": numpy.array([1.0, 2.0])}, state={})
    assert worker[0][0]["many"] == "a ndarray of shape (2,)"


def test_a_directory_of_the_loops_own_gets_a_manifest(worker, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "shard-0.bin").write_bytes(b"abc")
    trainjobs.report({"loss": 1.0}, checkpoint_dir=own)
    files = worker[0][1]
    assert set(files) == {"shard-0.bin", "trainsweep-manifest.json"}
    (entry,) = Manifest.model_validate_json(files["trainsweep-manifest.json"]).files
    assert (entry.path, entry.size) == ("shard-0.bin", 3)
    assert sha256(entry.checksums) == base64.b64encode(hashlib.sha256(b"abc").digest()).decode()
    assert not own.exists()


def test_a_loop_goes_on_after_what_it_loaded(worker, tmp_path, monkeypatch):
    checkpoint.save(tmp_path, epoch=2, metrics={"loss": 0.3}, state={"x": 5}, config_hash="0123456789")
    monkeypatch.setattr(ray_train, "get_checkpoint", lambda: ray_train.Checkpoint.from_directory(tmp_path))
    start = checkpoint.load()
    assert (start.epoch, start.state) == (2, {"x": 5})
    assert list(trainjobs.epochs(start, 4)) == [3, 4]
    assert worker == []


def test_with_nothing_left_the_last_metrics_are_reported_once_more(worker, tmp_path, monkeypatch):
    checkpoint.save(tmp_path, epoch=4, metrics={"loss": 0.3}, config_hash="0123456789")
    monkeypatch.setattr(ray_train, "get_checkpoint", lambda: ray_train.Checkpoint.from_directory(tmp_path))
    assert list(trainjobs.epochs(checkpoint.load(), 4)) == []
    assert worker == [({"loss": 0.3, "epoch": 4}, {})]


def test_another_trials_checkpoint_is_refused(worker, tmp_path, monkeypatch):
    checkpoint.save(tmp_path, epoch=4, config_hash="abcdefabcd")
    monkeypatch.setattr(ray_train, "get_checkpoint", lambda: ray_train.Checkpoint.from_directory(tmp_path))
    with pytest.raises(checkpoint.CheckpointMismatchError):
        checkpoint.load()


def test_the_stop_flag_is_seen_and_stays(worker, monkeypatch):
    flags = iter([False, True])
    monkeypatch.setattr(session, "flag", lambda s: next(flags))
    assert [trainjobs.stop_requested() for _ in range(3)] == [False, True, True]
    assert session.current().stopped


def test_between_two_askings_nothing_is_asked(worker, monkeypatch):
    asked = []
    monkeypatch.setattr(session, "flag", lambda s: bool(asked.append(1)))
    for _ in range(25):
        trainjobs.stop_requested(every=10)
    assert len(asked) == 2


def test_a_safe_point_saves_by_time_and_has_no_result(worker, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    session.current().saved_at = 100.0
    trainjobs.report({"loss": 0.5}, state={}, step=10)
    clock[0] = 129.0
    assert trainjobs.safe_point(every_seconds=30, state={"sum": 1}, step=14) is False
    assert len(worker) == 1
    clock[0] = 131.0
    assert trainjobs.safe_point(every_seconds=30, state={"sum": 2}, step=15) is False
    metrics, files = worker[1]
    assert metrics["epoch"] == 1
    assert (metrics["loss"], metrics[PARTIAL]) == (9e99, True), "finite: NaN would end every later start"
    progress = json.loads(files["progress.json"])
    assert (progress["epoch"], progress["step"], progress["state"]) == (1, 15, {"sum": 2})
    assert progress["metrics"] == {"loss": 0.5}
    clock[0] = 140.0
    assert trainjobs.safe_point(every_seconds=30, state={}) is False
    assert len(worker) == 2, "the clock starts anew with each checkpoint"


def test_a_stop_is_answered_with_a_checkpoint_once(worker, monkeypatch):
    monkeypatch.setattr(session, "flag", lambda s: True)
    assert trainjobs.safe_point(every=3, state={}) is False
    assert trainjobs.safe_point(every=3, state={}) is False
    assert trainjobs.safe_point(every=3, state={"x": 1}) is True
    assert trainjobs.safe_point(every=3, state={"x": 2}) is True
    assert len(worker) == 1
    assert session.current().stopped


def test_a_report_from_inside_an_epoch_is_no_result_for_tune(monkeypatch):
    from ray.tune.integration.ray_train import TuneReportCallback

    from trainjobs import trial

    told = []
    monkeypatch.setattr(TuneReportCallback, "after_report", lambda self, *a: told.append(a[1][0]))
    callback = trial.ReportCallback.__new__(trial.ReportCallback)
    callback._setup, callback._index, callback._count = SimpleNamespace(metric="loss", needs_epoch=True), 0, 0
    callback.after_report(None, [{"loss": float("nan"), "epoch": 0, PARTIAL: True}], None)
    callback.after_report(None, [{"loss": 1.0, "epoch": 1}], None)
    assert told == [{"loss": 1.0, "epoch": 1}]


LEAVES = """
import trainjobs
from trainjobs import checkpoint
TRAINSWEEP_BACKEND = "none"
def loop(config):
    start = checkpoint.load()
    if trainjobs.stop_requested():
        return
    for epoch in trainjobs.epochs(start, config["epochs"]):
        config["trained"].append(epoch)
        trainjobs.report({"loss": 1 / epoch}, epoch=epoch, state={})
        if trainjobs.stop_requested():
            return
"""


@pytest.mark.parametrize(("notice_at", "trained"), [(1, []), (2, [1]), (3, [1, 2])])
def test_b8_a_notice_ends_the_loop_and_nothing_that_was_saved_is_trained_again(
    worker, tmp_path, monkeypatch, notice_at, trained
):
    """Also where the notice comes in the moment in which the last epoch ends."""
    (tmp_path / "leaves_mod.py").write_text(LEAVES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(board, "find", lambda: (_ for _ in ()).throw(ValueError("no board")))
    asked = []
    monkeypatch.setattr(session, "flag", lambda s: asked.append(1) or len(asked) == notice_at)

    def attempt():
        loop = {"epochs": 2, "trained": []}
        names = {"trial": "t0000", "configHash": "0123456789", "metric": "loss", "worst": 9e99}
        how = run_worker({**names, "entrypoint": "leaves_mod:loop", "loop": loop})
        return how, loop["trained"]

    assert attempt() == (board.STOPPED, trained)
    assert [m["epoch"] for m, _ in worker] == trained
    if trained:
        checkpoint.save(tmp_path, epoch=trained[-1], metrics={"loss": 1 / trained[-1]}, config_hash="0123456789")
        monkeypatch.setattr(ray_train, "get_checkpoint", lambda: ray_train.Checkpoint.from_directory(tmp_path))
    again = [epoch for epoch in (1, 2) if epoch not in trained]
    assert attempt() == ("", again)
    assert worker[-1][0] == {"loss": 0.5, "epoch": 2}, "with nothing left, it is told once more"
    sys.modules.pop("leaves_mod")


def test_an_upload_in_the_background_keeps_its_files(worker, monkeypatch):
    places = []
    monkeypatch.setattr(reporting.tempfile, "mkdtemp", lambda prefix: places.append(real(prefix=prefix)) or places[-1])
    trainjobs.report({"loss": 0.5}, state={}, background=True)
    trainjobs.report({"loss": 0.4}, state={})
    assert [Path(p).exists() for p in places] == [True, False]
    options = worker.modes[0]
    assert options["checkpoint_upload_mode"].name == "ASYNC"
    assert options["delete_local_checkpoint_after_upload"] is True
    assert worker.modes[1] == {}
    shutil.rmtree(places[0])


def test_in_a_plain_ray_worker_there_is_a_session_of_no_trial(monkeypatch):
    monkeypatch.setattr(session, "_current", None)
    monkeypatch.setattr(ray_train, "get_context", lambda: SimpleNamespace(get_experiment_name=lambda: "mine"))
    here = session.current()
    assert (here.trial, here.config_hash, here.board) == ("mine", session.PLAIN, None)


def test_outside_of_training_the_helpers_say_so():
    with pytest.raises(RuntimeError, match="only inside a training loop that a sweep or Ray Train runs"):
        trainjobs.report({"loss": 1.0})


@pytest.fixture
def modules(tmp_path, monkeypatch):
    (tmp_path / "good_mod.py").write_text("TRAINSWEEP_BACKEND = 'none'\ndef loop(config):\n    return config\n")
    (tmp_path / "odd_mod.py").write_text("TRAINSWEEP_BACKEND = 'tpu'\nvalue = 3\ndef loop(config): ...\n")
    (tmp_path / "data_mod.py").write_text("TRAINSWEEP_BACKEND = TRAINSWEEP_DATASETS = 'none'\ndef loop(config): ...\n")
    (tmp_path / "broken_mod.py").write_text("import not_installed_at_all\n")
    (tmp_path / "exits_mod.py").write_text("raise ValueError('no data')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("data_mod", "good_mod", "odd_mod", "broken_mod", "exits_mod"):
        sys.modules.pop(name, None)


def test_a_loop_is_found_with_its_backend(modules):
    loop, backend = find_loop("good_mod:loop")
    assert (loop({"a": 1}), backend) == ({"a": 1}, "none")


@pytest.mark.parametrize(
    ("entrypoint", "text"),
    [
        ("broken_mod:loop", "importing broken_mod failed: ModuleNotFoundError: No module named 'not_installed_at_all'"),
        ("exits_mod:loop", "ValueError: no data"),
        ("good_mod:other", "good_mod has no function other"),
        ("odd_mod:value", "odd_mod has no function value"),
        ("data_mod:loop", "TRAINSWEEP_DATASETS must be a function"),
        ("odd_mod:loop", "TRAINSWEEP_BACKEND must be 'torch' or 'none'"),
    ],
)
def test_a_wrong_entrypoint_says_what_is_wrong(modules, entrypoint, text):
    with pytest.raises(DriverError) as error:
        find_loop(entrypoint)
    assert error.value.reason is FailureReason.BAD_ENTRYPOINT
    assert text in error.value.message
