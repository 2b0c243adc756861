"""Ray on this machine: never somebody else's, and a slow start is tried again."""

import os
import signal
import subprocess

import pytest

pytest.importorskip("ray")  # an extra; CI has it and fails on a skip

import ray

from trainjobs import cluster

SLOW_DASHBOARD = "RuntimeError: Module MetricsHead failed to start. Timeout after 30.0 seconds."


@pytest.fixture
def starts(monkeypatch):
    """What `ray.init` was given, and what it answers."""
    seen, answers = [], []

    def init(**options):
        seen.append(options)
        if answers:
            raise Exception(answers.pop(0))

    monkeypatch.setattr(ray, "init", init)
    for name in ("RAY_ADDRESS", "RAY_GCS_SERVER_PORT"):
        monkeypatch.setenv(name, "somebody else's")
    monkeypatch.setattr(ray, "shutdown", lambda: seen.append("shutdown"))
    return seen, answers


def test_a_ray_that_runs_here_already_is_not_joined(starts):
    seen, _ = starts
    cluster.start_here(num_cpus=2)
    assert seen == [{"address": "local", "num_cpus": 2}]


def test_its_processes_know_which_ray_they_belong_to(starts):
    """Where two run on a machine, Train's cleaner would find neither, and a stopped trial would keep its CPUs."""
    cluster.start_here()
    port = os.environ["RAY_GCS_SERVER_PORT"]
    assert port.isdigit()
    assert os.environ["RAY_ADDRESS"] == f"{ray.util.get_node_ip_address()}:{port}"


@pytest.mark.parametrize("words", ["The current node timed out during startup.", SLOW_DASHBOARD])
def test_a_slow_start_is_tried_once_more(starts, words):
    seen, answers = starts
    answers.append(words)
    cluster.start_here()
    assert [s != "shutdown" for s in seen] == [True, False, True]
    answers += [words] * 3
    with pytest.raises(Exception, match="t"):
        cluster.start_here()


def test_what_a_failed_start_left_is_ended(starts, monkeypatch):
    _, answers = starts
    answers.append(SLOW_DASHBOARD)
    left = []

    def init(**options):
        if answers:
            left.append(subprocess.Popen(["sleep", "600"]))
            raise Exception(answers.pop())

    monkeypatch.setattr(ray, "init", init)
    mine = subprocess.Popen(["sleep", "600"])
    try:
        cluster.start_here()
        assert left[0].wait(10) == -signal.SIGKILL
        assert mine.poll() is None
    finally:
        mine.kill()
        mine.wait()


def test_another_fault_is_told_at_once(starts):
    seen, answers = starts
    answers.append("no such resource")
    with pytest.raises(Exception, match="no such resource"):
        cluster.start_here()
    assert len(seen) == 1
