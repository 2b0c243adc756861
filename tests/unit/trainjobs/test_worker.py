"""A worker's side of a trial, with Ray's own functions replaced: reports, resume, the stop flag, finding the loop."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import trainjobs
from trainjobs import checkpoint, reporting, session
from trainjobs.loop import find_loop
from trainjobs.outcome import DriverError
from trainsweep.contract.documents import FailureReason, Manifest

ray_train = pytest.importorskip("ray.train")


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Rank 0 of one worker; what it reports is kept in a list."""
    sent = []

    def report(metrics, checkpoint=None):
        files = {}
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                files = {p.name: p.read_bytes() for p in Path(folder).iterdir()}
        sent.append((metrics, files))

    context = SimpleNamespace(get_world_rank=lambda: 0, get_world_size=lambda: 1)
    monkeypatch.setattr(ray_train, "report", report)
    monkeypatch.setattr(ray_train, "get_context", lambda: context)
    monkeypatch.setattr(ray_train, "get_checkpoint", lambda: None)
    session.begin(session.Session(trial="t0000", config_hash="0123456789"))
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
    numpy = pytest.importorskip("numpy")
    trainjobs.report({"loss": numpy.float32(0.5)}, state={})
    assert type(worker[0][0]["loss"]) is float


def test_a_directory_of_the_loops_own_gets_a_manifest(worker, tmp_path):
    (tmp_path / "shard-0.bin").write_bytes(b"abc")
    trainjobs.report({"loss": 1.0}, checkpoint_dir=tmp_path)
    assert set(worker[0][1]) == {"shard-0.bin", "trainsweep-manifest.json"}
    assert not tmp_path.exists()


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
    monkeypatch.setattr(session, "_flag", lambda s: next(flags))
    assert [trainjobs.stop_requested() for _ in range(3)] == [False, True, True]
    assert session.current().stopped


def test_between_two_askings_nothing_is_asked(worker, monkeypatch):
    asked = []
    monkeypatch.setattr(session, "_flag", lambda s: bool(asked.append(1)))
    for _ in range(25):
        trainjobs.stop_requested(every=10)
    assert len(asked) == 2


def test_outside_of_a_sweep_the_helpers_say_so():
    with pytest.raises(RuntimeError, match="only inside a training loop that a sweep runs"):
        trainjobs.report({"loss": 1.0})


@pytest.fixture
def modules(tmp_path, monkeypatch):
    (tmp_path / "good_mod.py").write_text("TRAINSWEEP_BACKEND = 'none'\ndef loop(config):\n    return config\n")
    (tmp_path / "odd_mod.py").write_text("TRAINSWEEP_BACKEND = 'tpu'\nvalue = 3\ndef loop(config): ...\n")
    (tmp_path / "broken_mod.py").write_text("import not_installed_at_all\n")
    (tmp_path / "exits_mod.py").write_text("raise ValueError('no data')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("good_mod", "odd_mod", "broken_mod", "exits_mod"):
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
        ("odd_mod:loop", "TRAINSWEEP_BACKEND must be 'torch' or 'none'"),
    ],
)
def test_a_wrong_entrypoint_says_what_is_wrong(modules, entrypoint, text):
    with pytest.raises(DriverError) as error:
        find_loop(entrypoint)
    assert error.value.reason is FailureReason.BAD_ENTRYPOINT
    assert text in error.value.message
