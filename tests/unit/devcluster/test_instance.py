"""Two instances never share a number, and a name that cannot be used is refused before anything starts."""

import ipaddress
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import instance as instances
from devcluster import paths
from devcluster.errors import DevClusterError
from devcluster.instance import Instance


@pytest.fixture(autouse=True)
def _state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="ts") as folder:  # short: sockets' paths are limited
        monkeypatch.setenv("XDG_STATE_HOME", folder)
        yield


def make(name: str, slot: int, control_plane_only: bool = True) -> Instance:
    return Instance(name, slot, control_plane_only, True, "key", "secret")


def test_slots_do_not_overlap() -> None:
    first, second = make("a", 7), make("b", 8)
    programs = instances._PORTS
    assert not {first.port(one) for one in programs} & {second.port(one) for one in programs}
    assert not first.network.overlaps(second.network)
    assert first.host_link != second.host_link
    assert all(make("z", slot).port("versitygw") < 32768 for slot in range(instances.SLOTS))  # below ephemeral ports


def test_the_parts_of_a_network_do_not_overlap() -> None:
    one = make("a", 3, control_plane_only=False)
    link = ipaddress.IPv4Network(f"{one.host_ip}/30", strict=False)
    parts = [ipaddress.IPv4Network(one.cluster_cidr), ipaddress.IPv4Network(one.service_cidr), link]
    assert all(part.subnet_of(one.network) for part in parts)
    assert not any(a.overlaps(b) for a in parts for b in parts if a is not b)
    assert ipaddress.IPv4Address(one.node_ip) in link
    assert ipaddress.IPv4Address(one.service_ip) in ipaddress.IPv4Network(one.service_cidr)
    assert ipaddress.IPv4Network(one.pod_cidr).subnet_of(ipaddress.IPv4Network(one.cluster_cidr))


def test_a_link_name_fits_the_kernel() -> None:
    assert len(make("a", 99).host_link + "n") <= 15


def test_a_record_is_read_back() -> None:
    one = make("a", 5)
    one.save()
    assert instances.load("a") == one
    assert instances.load("b") is None


def test_a_recorded_slot_is_not_given_twice() -> None:
    first = instances.choose_slot("same", True)
    make("other", first).save()
    assert instances.choose_slot("same", True) != first


def test_a_taken_port_means_another_slot_and_is_named_with_its_holder_when_none_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slot = instances.choose_slot("a", True)
    with socket.socket() as server:
        server.bind(("127.0.0.1", make("a", slot).port("kube-apiserver")))
        server.listen()
        assert instances.choose_slot("a", True) != slot
        monkeypatch.setattr(instances, "_FIRST_PORT", instances._FIRST_PORT + instances._PER_SLOT * slot)
        monkeypatch.setattr(instances, "SLOTS", 1)
        with pytest.raises(DevClusterError, match=r"kube-apiserver\) is taken by .*process"):
            instances.choose_slot("a", True)


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "a/b", "..", "x" * 21])
def test_unusable_names_are_refused(name: str) -> None:
    with pytest.raises(DevClusterError, match="cannot name a cluster"):
        paths.state_dir(name)


def test_a_state_folder_too_long_for_sockets_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 80)))
    with pytest.raises(DevClusterError, match="XDG_STATE_HOME"):
        paths.state_dir("dev")
