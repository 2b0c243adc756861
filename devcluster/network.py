"""The node's network namespace and the link between it and the host.

Inside live containerd, kubelet, kube-proxy, CoreDNS and all pods; what they do to interfaces and iptables stays inside
and ends with the namespace. The host gets one interface with an address and one route, so that it reaches pods and
Services by their addresses.
"""

import contextlib
from pathlib import Path

from devcluster.errors import DevClusterError
from devcluster.instance import Instance
from devcluster.shell import run, succeeds


def namespace_file(instance: Instance) -> Path:
    """The file that keeps the namespace, a mount; `ip netns` would leave a mount of its own behind."""
    return instance.state / "netns"


def inside(instance: Instance) -> list[str]:
    """Words that, put before a command line, run it inside; only the network changes, mounts are the host's."""
    return ["nsenter", f"--net={namespace_file(instance)}", "--"]


def up(instance: Instance) -> None:
    """Make the namespace, the link, the routes and forwarding.

    Raises:
        DevClusterError: the kernel refuses.
    """
    file = namespace_file(instance)
    file.touch()
    hint = "The kernel must offer network namespaces and veth links; in a container, run it privileged."
    run(["unshare", f"--net={file}", "true"], hint=hint)
    link, prefix = instance.host_link, instance.network.prefixlen
    peer = f"{link}n"
    run(["ip", "link", "add", link, "type", "veth", "peer", "name", peer], hint=hint)
    run(["ip", "link", "set", peer, "netns", str(file)])
    run(["ip", "address", "add", f"{instance.host_ip}/30", "dev", link])
    run(["ip", "link", "set", link, "up"])
    run(["ip", "route", "add", f"{instance.network.network_address}/{prefix}", "via", instance.node_ip, "dev", link])
    within = inside(instance)
    run([*within, "ip", "link", "set", peer, "name", "eth0"])
    run([*within, "ip", "address", "add", f"{instance.node_ip}/30", "dev", "eth0"])
    run([*within, "ip", "link", "set", "lo", "up"])
    run([*within, "ip", "link", "set", "eth0", "up"])
    run([*within, "ip", "route", "add", "default", "via", instance.host_ip])
    for setting in ("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"):
        run([*within, "sh", "-c", f"echo 1 > /proc/sys/{setting}"])


def down(instance: Instance) -> None:
    """Remove link and namespace, as far as they are there."""
    if succeeds(["ip", "link", "show", "dev", instance.host_link]):
        with contextlib.suppress(DevClusterError):  # it may go away by itself with the namespace
            run(["ip", "link", "delete", instance.host_link])
    file = namespace_file(instance)
    while succeeds(["umount", file]):
        pass
    file.unlink(missing_ok=True)
