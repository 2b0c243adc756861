"""A worker's node tries its way to the store once an attempt, and says who it is."""

import pytest

from trainjobs import firstuse, flags
from trainjobs.outcome import DriverError
from trainjobs.store import denied

ATTEMPT = "1-0a1b2c3d"


@pytest.fixture
def tried(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINSWEEP_STATE_DIR", str(tmp_path))
    calls = []
    monkeypatch.setattr(firstuse, "probe_filesystem", lambda *a: calls.append(a))
    return calls


def test_a_node_is_tried_once_an_attempt(tried):
    for _ in range(3):
        firstuse.try_store(ATTEMPT, "fs", "bucket/run")
    firstuse.try_store("2-0a1b2c3d", "fs", "bucket/run")
    assert [(fs, root) for fs, root, _, _ in tried] == [("fs", "bucket/run")] * 2
    assert tried[0][2].startswith(f".preflight-{ATTEMPT}-")


def test_the_driver_s_own_node_was_tried_by_the_driver(tried):
    flags.Flags(ATTEMPT).begin()
    firstuse.try_store(ATTEMPT, "fs", "bucket/run")
    assert tried == []


def test_a_refusal_names_the_node_and_is_met_again(tried, monkeypatch):
    monkeypatch.setattr(firstuse.socket, "gethostname", lambda: "gpu-7")

    def refuse(*arguments):
        raise denied("writing is denied")

    monkeypatch.setattr(firstuse, "probe_filesystem", refuse)
    for _ in range(2):
        with pytest.raises(DriverError, match="node gpu-7: writing is denied"):
            firstuse.try_store(ATTEMPT, "fs", "bucket/run")


def test_an_unknown_fault_is_no_denial(tried, monkeypatch):
    def fault(*arguments):
        raise ValueError("odd")

    monkeypatch.setattr(firstuse, "probe_filesystem", fault)
    with pytest.raises(DriverError, match=r"StorageUnavailable.*the store cannot be used: odd"):
        firstuse.try_store(ATTEMPT, "fs", "bucket/run")
