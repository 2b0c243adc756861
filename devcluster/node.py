"""The one node: containerd, kubelet, kube-proxy and DNS, all inside the node's network namespace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster import cgroups, cleanup, images, network, programs, system
from devcluster.instance import Instance
from devcluster.procs import Processes
from devcluster.shell import run, succeeds
from devcluster.waiting import wait_for

if TYPE_CHECKING:
    from devcluster.cluster import Cluster

NAMES = ("containerd", "kubelet", "kube-proxy", "coredns")

_CONTAINERD = """\
version = 2
root = "{state}/containerd/root"
state = "{state}/containerd/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{state}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_bin}"
    conf_dir = "{state}/cni/net.d"
"""

_COREFILE = """\
cluster.local in-addr.arpa {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 5
    }}
}}
"""

_DNS_RBAC = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: devcluster-coredns}
rules:
- {apiGroups: [""], resources: [services, namespaces, pods, endpoints], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: devcluster-coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: devcluster-coredns}
subjects: [{kind: User, name: devcluster-coredns, apiGroup: rbac.authorization.k8s.io}]
"""


def start(instance: Instance, processes: Processes) -> None:
    """Start the four programs; they become ready by and by, see :func:`wait_ready`.

    Raises:
        DevClusterError: something of the machine is missing or containerd does not come up.
    """
    cleanup.note_existing(instance.state)
    _start_containerd(instance, processes)
    images.load(instance, images.pause())
    _start_kubelet(instance, processes)
    _start_proxy(instance, processes)
    _start_dns(instance, processes)


def _program(name: str) -> str:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/usr/local/sbin") or name


def _start_containerd(instance: Instance, processes: Processes) -> None:
    state, socket = instance.state, images.containerd_socket(instance)
    (state / "containerd").mkdir(exist_ok=True)
    config = state / "containerd" / "config.toml"
    text = _CONTAINERD.format(state=state, socket=socket, pause=images.PAUSE_TAG, cni_bin=system.cni_folder())
    config.write_text(text)
    _write_cni(instance)
    processes.start("containerd", [*network.inside(instance), _program("containerd"), "--config", config])

    def probe() -> str | None:
        processes.check("containerd")
        return None if succeeds([*images.ctr(instance), "version"]) else "its socket does not answer"

    wait_for("containerd ready", probe, 30, f"Log: {instance.logs / 'containerd.log'}")


def _write_cni(instance: Instance) -> None:
    folder = instance.state / "cni" / "net.d"
    folder.mkdir(parents=True, exist_ok=True)
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": instance.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(instance.state / "cni" / "addresses"),
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipMasq": False, "ipam": ipam}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    config = {"cniVersion": "0.4.0", "name": instance.cgroup, "plugins": [bridge, ports]}
    (folder / "10-devcluster.conflist").write_text(json.dumps(config, indent=1))


def _start_kubelet(instance: Instance, processes: Processes) -> None:
    keys = instance.state / "pki"
    cgroups.create(instance.cgroup)
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{images.containerd_socket(instance)}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{instance.cgroup}",
        "failSwapOn": False,
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": "cluster.local",
        "clusterDNS": [instance.node_ip],
        "podLogsDir": str(instance.state / "pod-logs"),
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
        # the disk is shared with everything else on this machine: evict late, never collect images
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }
    file = instance.state / "kubelet.json"
    file.write_text(json.dumps(config, indent=1))
    argv: list[str | Path] = [*network.inside(instance), programs.path("kubelet")]
    argv += [
        f"--config={file}",
        f"--kubeconfig={keys / 'kubelet.kubeconfig'}",
        f"--root-dir={instance.state / 'kubelet'}",
    ]
    argv += [f"--cert-dir={instance.state / 'kubelet-pki'}", f"--hostname-override={instance.node_name}"]
    argv += [f"--node-ip={instance.node_ip}"]
    _share(instance.state / "kubelet")
    processes.start("kubelet", argv)


def _share(folder: Path) -> None:
    """A mount of its own that passes mounts on, as the kubelet wants its folder.

    It makes one itself where there is none, while other parts of it already make files there; one of those then failed
    with "invalid cross-device link", and the kubelet ended.
    """
    if str(folder) in cleanup.mounts_under(folder):
        return
    folder.mkdir(exist_ok=True)
    run(["mount", "--bind", folder, folder])
    run(["mount", "--make-rshared", folder])


def _start_proxy(instance: Instance, processes: Processes) -> None:
    argv: list[str | Path] = [*network.inside(instance), programs.path("kube-proxy")]
    argv += [f"--kubeconfig={instance.state / 'pki' / 'kube-proxy.kubeconfig'}", "--proxy-mode=iptables"]
    argv += [f"--hostname-override={instance.node_name}", f"--cluster-cidr={instance.cluster_cidr}"]
    # these limits belong to the whole machine, not to a namespace: leave them alone
    argv += ["--conntrack-max-per-core=0", "--conntrack-min=0"]
    argv += ["--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"]
    argv += ["--iptables-sync-period=10s", "--iptables-min-sync-period=100ms"]
    processes.start("kube-proxy", argv)


def _start_dns(instance: Instance, processes: Processes) -> None:
    kubeconfig = instance.state / "pki" / "coredns.kubeconfig"
    corefile = instance.state / "Corefile"
    corefile.write_text(_COREFILE.format(address=instance.node_ip, kubeconfig=kubeconfig))
    argv: list[str | Path] = [*network.inside(instance), programs.path("coredns"), "-conf", corefile]
    processes.start("coredns", argv)


def wait_ready(cluster: Cluster, timeout: float = 180) -> None:
    """Grant DNS its rights and return when the Node is Ready and takes pods.

    Raises:
        DevClusterError: a program ended or the node did not become ready.
    """
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=_DNS_RBAC)
    name = cluster.node_name
    template = '{range .status.conditions[?(@.type=="Ready")]}{.status} {.message}{end}|{.spec.taints[*].key}'

    def probe() -> str | None:
        for program in NAMES:
            cluster.processes.check(program)
        seen = cluster.kubectl("get", "node", name, "--ignore-not-found", "-o", f"jsonpath={template}")
        ready, _, taints = seen.partition("|")
        if not ready.startswith("True"):
            return ready or "the kubelet has not registered it"
        return f"taints {taints}" if taints else None

    wait_for("Node ready", probe, timeout, f"Log: {cluster.logs_dir / 'kubelet.log'}", every=0.5)
    wait_for("default service account", lambda: _default_account(cluster), 30, every=0.3)


def _default_account(cluster: Cluster) -> str | None:
    argv = ["get", "serviceaccount", "default", "-n", "default", "--ignore-not-found", "-o", "name"]
    return None if cluster.kubectl(*argv).strip() else "not there"
