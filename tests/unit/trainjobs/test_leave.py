"""The end of Ray in a pod that is being stopped: which process is asked, and when a worker asks it."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from trainjobs import leave


def process(proc: Path, number: int, *words: str) -> None:
    (proc / str(number)).mkdir()
    (proc / str(number) / "cmdline").write_bytes("\0".join(words).encode() + b"\0")


def test_rays_own_process_is_found_and_the_shell_above_it_is_not(tmp_path: Path) -> None:
    process(tmp_path, 1, "/bin/bash", "-lc", "--", "ulimit -n 65536; ray start --head --block")
    process(tmp_path, 7, "/usr/bin/python", "/usr/bin/ray", "start", "--head", "--block", "--num-cpus=0")
    (tmp_path / "sys").mkdir()
    assert leave.block_process(tmp_path) == 7


def test_without_ray_there_is_nothing_to_end(tmp_path: Path) -> None:
    process(tmp_path, 1, "/bin/bash", "-lc", "--", "ray start --block")
    (tmp_path / "9").mkdir()  # it has ended meanwhile
    assert leave.block_process(tmp_path) is None


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals sent, with a Ray at process 7."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(leave, "block_process", lambda: 7)
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def test_a_worker_leaves_once_the_head_is_silent_twice(asked: list[tuple[int, int]]) -> None:
    answers = iter([True, False, True, False, False])
    assert leave.leave_after_head("head:6379", 60, answers=lambda _: next(answers), pause=0)
    assert list(answers) == []
    assert asked == [(7, signal.SIGTERM)]


def test_a_worker_whose_head_lives_trains_on_until_its_time_is_up(asked: list[tuple[int, int]]) -> None:
    assert not leave.leave_after_head("head:6379", 0.05, answers=lambda _: not asked, pause=0.01)
    assert asked == [(7, signal.SIGTERM)]


def test_a_head_answers_where_something_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert leave.head_answers(address)
    assert not leave.head_answers(address)
    assert not leave.head_answers("")
    assert not leave.head_answers("head")
