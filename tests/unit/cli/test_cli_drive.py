"""A local driver as a process: watched, asked to stop by Ctrl-C, ended when it is deaf. The driver is a stub."""

import os
import signal
import textwrap
import threading
import time

import pytest

from tests.unit.render.render_builders import raw
from tests.unit.runtime.runs import ATTEMPT, SWEEP
from trainsweep.api.resolve import resolve
from trainsweep.cli import run_command, show
from trainsweep.cli.inputs import Input
from trainsweep.cli.run_command import Prepared, drive
from trainsweep.contract.documents import Control, StoreRef, SweepFile
from trainsweep.contract.layout import parse_uri
from trainsweep.runtime.store import FileStore

OBEDIENT = """
    import json, pathlib, sys, time
    control = pathlib.Path(sys.argv[sys.argv.index("--control") + 1])
    print("training", flush=True)
    pathlib.Path("up").touch()
    for _ in range(600):
        time.sleep(0.05)
        if "stop" in json.loads(control.read_text()):
            print("stopping:", json.loads(control.read_text())["stop"]["reason"])
            sys.exit(5)
"""
SLOW = """
    import pathlib, signal, sys, time
    seen = []
    def handle(number, frame):
        seen.append(number)
        if len(seen) > 1:  # as the real driver: the first is a request
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("now", flush=True)
            sys.exit(7)
    signal.signal(signal.SIGINT, handle)
    pathlib.Path("up").touch()
    for _ in range(600):
        time.sleep(0.1)
"""
DEAF = """
    import pathlib, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pathlib.Path("up").touch()
    time.sleep(60)
"""


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `python -m trainjobs` finds the stub there
    monkeypatch.setattr(run_command, "POLL_SECONDS", 0.05)
    (tmp_path / "store").mkdir()
    location = parse_uri(f"file://{tmp_path}/store")
    file = SweepFile(sweep=SWEEP, attempt=1, attempt_id=ATTEMPT, store=StoreRef(uri=location.uri), spec={})
    (tmp_path / "control.json").write_bytes(Control(attempt_id=ATTEMPT).to_json())
    found = Input("f", None, "digits", "team-a", {}, None, resolve(raw(), None))
    return Prepared(found, location, FileStore(location), file, tmp_path)


def stub(folder, text):
    (folder / "trainjobs").mkdir()
    (folder / "trainjobs" / "__main__.py").write_text(textwrap.dedent(text))


def interrupt(folder, times):
    def press():
        while not (folder / "up").exists():
            time.sleep(0.02)
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.4)

    threading.Thread(target=press, daemon=True).start()


def run(prepared):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return drive(prepared, env, None, show.console())


def test_the_first_interrupt_asks_and_the_driver_ends_by_itself(prepared):
    stub(prepared.folder, OBEDIENT)
    interrupt(prepared.folder, 1)
    before = signal.getsignal(signal.SIGINT)
    code, judge = run(prepared)
    assert code == 5
    assert prepared.log.read_text() == "training\nstopping: Interrupted\n"
    assert judge.progress is None
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_interrupt_ends_the_driver_now(prepared):
    stub(prepared.folder, SLOW)
    interrupt(prepared.folder, 2)
    started = time.monotonic()
    code, _ = run(prepared)
    assert code == 7
    assert prepared.log.read_text() == "now\n"
    assert time.monotonic() - started < 20


def test_a_driver_that_does_not_end_now_is_killed_after_a_while(prepared, monkeypatch):
    monkeypatch.setattr(run_command, "NOW_SECONDS", 1.0)
    stub(prepared.folder, DEAF)
    interrupt(prepared.folder, 2)
    assert run(prepared)[0] == -signal.SIGKILL


def test_a_driver_that_does_not_listen_is_killed_by_the_third(prepared):
    stub(prepared.folder, DEAF)
    interrupt(prepared.folder, 3)
    started = time.monotonic()
    code, _ = run(prepared)
    assert code == -signal.SIGKILL
    assert time.monotonic() - started < 30


def test_a_driver_that_fails_at_once_leaves_its_words(prepared):
    stub(prepared.folder, "raise SystemExit('no such thing')")
    code, _ = run(prepared)
    assert code == 1
    assert "no such thing" in prepared.log.read_text()


def test_the_driver_runs_in_a_session_of_its_own(prepared):
    stub(prepared.folder, "import os; print(os.getsid(0) == os.getpid())")
    assert run(prepared)[0] == 0
    assert prepared.log.read_text().strip() == "True"
