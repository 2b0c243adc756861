"""What an instance is called, which ports and addresses it uses, and where it keeps its state.

Everything is derived from one small number, the slot: two clusters have two slots and share nothing. A full cluster's
node lives in a network namespace of its own, so kube-proxy's rules, the pod bridge and the CNI's chains never touch the
host's, and go away with the namespace.
"""

import hashlib
import ipaddress
import json
import socket
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.paths import state_dir, state_root
from devcluster.procs import holder_of_port

SLOTS = 100
_FIRST_PORT = 20000
_PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "versitygw",
    "argocd-cache",
    "argocd-repo-server",
    "argocd-repo-server-metrics",
    "argocd-application-controller-metrics",
    "argocd-server",
    "argocd-server-metrics",
)
_PER_SLOT = 20


@dataclass(frozen=True)
class Instance:
    """One cluster, as recorded in its state folder.

    Attributes:
        name: what the user calls it.
        slot: 0 to 99, the source of all its numbers.
        control_plane_only: no node, no pods: etcd and the Kubernetes control plane alone.
        s3: an S3 server runs beside it.
        s3_access_key: access key of the S3 server's root account.
        s3_secret_key: its secret key, made at random for each instance.
    """

    name: str
    slot: int
    control_plane_only: bool
    s3: bool
    s3_access_key: str
    s3_secret_key: str

    @property
    def state(self) -> Path:
        """The folder that holds everything of this instance."""
        return state_dir(self.name)

    @property
    def logs(self) -> Path:
        """One log file a program."""
        return self.state / "logs"

    def port(self, program: str) -> int:
        """The TCP port of one of the host's programs."""
        return _FIRST_PORT + _PER_SLOT * self.slot + _PORTS.index(program)

    @property
    def network(self) -> ipaddress.IPv4Network:
        """The /16 that pods, services and the link to the node share."""
        return ipaddress.IPv4Network(f"10.{100 + self.slot}.0.0/16")

    @property
    def pod_cidr(self) -> str:
        """Addresses of pods."""
        return f"10.{100 + self.slot}.0.0/24"

    @property
    def cluster_cidr(self) -> str:
        """What the controller manager hands node CIDRs out of; the first is ``pod_cidr``."""
        return f"10.{100 + self.slot}.0.0/17"

    @property
    def service_cidr(self) -> str:
        """Cluster addresses of Services."""
        return f"10.{100 + self.slot}.128.0/18"

    @property
    def service_ip(self) -> str:
        """Address of the Service ``kubernetes``."""
        return f"10.{100 + self.slot}.128.1"

    @property
    def host_ip(self) -> str:
        """The host as pods see it: where the API server and the S3 server listen."""
        return "127.0.0.1" if self.control_plane_only else f"10.{100 + self.slot}.192.1"

    @property
    def node_ip(self) -> str:
        """The node's address, on the other end of the link."""
        return f"10.{100 + self.slot}.192.2"

    @property
    def node_name(self) -> str:
        """Name of the one Node."""
        return f"{self.name}-node"

    @property
    def host_link(self) -> str:
        """The host's end of the link; at most 15 characters."""
        return f"tsdev{self.slot}"

    @property
    def cgroup(self) -> str:
        """Name of the control group above all pods of this instance."""
        return f"trainsweep-{self.name}"

    @property
    def server(self) -> str:
        """URL of the API server from the host."""
        return f"https://{self.host_ip}:{self.port('kube-apiserver')}"

    @property
    def s3_endpoint(self) -> str:
        """URL of the S3 server, the same from the host and from pods."""
        return f"http://{self.host_ip}:{self.port('versitygw')}"

    def save(self) -> None:
        """Record this instance in its state folder."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        target = self.state / "instance.json"
        fresh = target.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=2))
        fresh.rename(target)


def load(name: str) -> Instance | None:
    """The instance recorded under a name, live or dead; None where there is none."""
    record = state_dir(name) / "instance.json"
    if not record.exists():
        return None
    known = {field.name for field in fields(Instance)}
    data = {key: value for key, value in json.loads(record.read_text()).items() if key in known}
    return Instance(**data)


def choose_slot(name: str, control_plane_only: bool) -> int:
    """A slot that no other instance has and whose ports and addresses are free.

    The search begins at a place that depends on the name, so an instance usually gets the same numbers again.

    Raises:
        DevClusterError: all are taken.
    """
    taken = set()
    for record in state_root().glob("*/instance.json"):
        other = load(record.parent.name)
        if other and other.name != name:
            taken.add(other.slot)
    first = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % SLOTS
    problems: list[str] = []
    for number in range(SLOTS):
        slot = (first + number) % SLOTS
        if slot in taken:
            continue
        problem = _problem(Instance(name, slot, control_plane_only, True, "", ""))
        if not problem:
            return slot
        problems.append(problem)
    raise DevClusterError(
        "every port range and network that this package uses is taken: "
        + "; ".join(problems[:3] or ["by other instances"])
        + ". List instances with `python -m devcluster status` and stop what you no longer need."
    )


def _problem(instance: Instance) -> str:
    for program in _PORTS:
        port = instance.port(program)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return f"port {port} (for {program}) is taken by {holder_of_port(port) or 'an unknown process'}"
    if not instance.control_plane_only:
        for line in Path("/proc/net/route").read_text().splitlines()[1:]:
            link, destination, _, _, _, _, _, mask, *_ = line.split()
            target, bits = _address(destination), int(mask, 16).bit_count()
            if bits and ipaddress.IPv4Network(f"{target}/{bits}", strict=False).overlaps(instance.network):
                return f"network {instance.network} is routed to {link} already"
    return ""


def _address(little_endian_hex: str) -> str:
    return str(ipaddress.IPv4Address(int.from_bytes(bytes.fromhex(little_endian_hex), "little")))
