"""A process is recognised by id and start time, and ended by nothing else."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.errors import DevClusterError
from devcluster.procs import Handle, Processes, end, holder_of_port, start_time


def test_a_started_process_is_found_again_by_another_reader(tmp_path: Path) -> None:
    handle = Processes(tmp_path).start("sleeper", ["sleep", "60"])
    again = Processes(tmp_path)
    assert again.names() == ["sleeper"]
    assert again.alive("sleeper")
    end([again.handle("sleeper")], grace=5)
    assert not handle.alive


def test_a_process_id_given_to_somebody_else_is_not_ours(tmp_path: Path) -> None:
    Processes(tmp_path).start("sleeper", ["sleep", "60"])
    record = tmp_path / "procs" / "sleeper.json"
    true = Processes(tmp_path).handle("sleeper")
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "pid": os.getpid()}))  # the id is live, its start time is another
    assert not Processes(tmp_path).alive("sleeper")
    end([Processes(tmp_path).handle("sleeper")], grace=0)  # this very test process survives
    end([true], grace=0)


def test_restart_starts_a_killed_program_as_before_and_leaves_a_live_one_alone(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    first = processes.start("program", ["sh", "-c", "echo $WORD; exec sleep 60"], env={"WORD": "hello"})
    _until(lambda: processes.log_tail("program") == "hello")
    assert processes.restart("program") == first
    end([first], grace=0)
    second = processes.restart("program")
    assert second.alive
    _until(lambda: processes.log_tail("program") == "hello\nhello")
    end([second], grace=0)


def test_a_paused_process_still_ends(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    handle = processes.start("sleeper", ["sleep", "60"])
    processes.signal("sleeper", signal.SIGSTOP)
    assert handle.alive
    end([handle], grace=5)
    assert not handle.alive


def test_an_ended_program_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    handle = processes.start("bad", ["sh", "-c", "echo no such flag; exit 1"])
    _until(lambda: not handle.alive)
    with pytest.raises(DevClusterError, match="no such flag"):
        processes.check("bad")


def test_an_unknown_program_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(DevClusterError, match="no process 'kubelet'"):
        Processes(tmp_path).handle("kubelet")


def test_a_gone_process_has_no_start_time() -> None:
    assert start_time(2**22 + 1) is None
    assert not Handle(2**22 + 1, "x").alive


def test_the_holder_of_a_port_is_named() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert str(os.getpid()) in holder_of_port(server.getsockname()[1])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
