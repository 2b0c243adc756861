"""etcd, API server, controller manager and scheduler: started, waited for, nothing else."""

import http.client
import json
import ssl
from pathlib import Path

from devcluster import pki, programs
from devcluster.instance import Instance
from devcluster.procs import Processes
from devcluster.waiting import wait_for

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

# Who asked for what, by which client: enough for tests that count requests. Bodies would be most of the volume.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "Metadata"},
    ],
}


def audit_log(instance: Instance) -> Path:
    """The API server's audit log: one JSON event a line, level Metadata."""
    return instance.state / "audit.log"


def start(instance: Instance, processes: Processes) -> None:
    """Make the certificates, start the programs and return when the API server serves.

    Raises:
        DevClusterError: a program ended or did not become ready.
    """
    paths = {name: programs.path(name) for name in NAMES}
    _certificates(instance)
    _start_etcd(instance, processes, paths["etcd"])
    _start_apiserver(instance, processes, paths["kube-apiserver"])
    wait_ready(instance, processes)
    _start_managers(instance, processes, paths)


def _certificates(instance: Instance) -> None:
    folder = instance.state / "pki"
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    names += ["kubernetes.default.svc.cluster.local", "127.0.0.1", instance.host_ip, instance.service_ip]
    authority = pki.Authority(folder, "ca")
    front_proxy = pki.Authority(folder, "front-proxy-ca")
    authority.issue("apiserver", "kube-apiserver", addresses=names)
    authority.issue("kubelet-client", "kube-apiserver-kubelet-client", "system:masters")
    front_proxy.issue("front-proxy-client", "front-proxy-client")
    pki.service_account_key(folder)
    users = {
        "admin": ("devcluster-admin", "system:masters"),
        "kube-controller-manager": ("system:kube-controller-manager", None),
        "kube-scheduler": ("system:kube-scheduler", None),
    }
    if not instance.control_plane_only:
        users["kubelet"] = (f"system:node:{instance.node_name}", "system:nodes")
        users["kube-proxy"] = ("system:kube-proxy", None)
        users["coredns"] = ("devcluster-coredns", None)
    for user, (common_name, organization) in users.items():
        certificate, key = authority.issue(user, common_name, organization)
        target = instance.state / "kubeconfig" if user == "admin" else folder / f"{user}.kubeconfig"
        pki.write_kubeconfig(target, instance.server, authority.certificate_file, certificate, key)


def _start_etcd(instance: Instance, processes: Processes, program: Path) -> None:
    client = f"http://127.0.0.1:{instance.port('etcd')}"
    peer = f"http://127.0.0.1:{instance.port('etcd-peer')}"
    argv: list[str | Path] = [program, "--name=devcluster", f"--data-dir={instance.state / 'etcd'}"]
    argv += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
    argv += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=devcluster={peer}"]
    argv += ["--unsafe-no-fsync", "--log-level=warn", "--quota-backend-bytes=4294967296"]
    processes.start("etcd", argv)


def _start_apiserver(instance: Instance, processes: Processes, program: Path) -> None:
    keys = instance.state / "pki"
    policy = instance.state / "audit-policy.json"
    policy.write_text(json.dumps(_AUDIT_POLICY))
    issuer = "https://kubernetes.default.svc.cluster.local"
    argv: list[str | Path] = [
        program,
        f"--etcd-servers=http://127.0.0.1:{instance.port('etcd')}",
        f"--secure-port={instance.port('kube-apiserver')}",
        f"--bind-address={'127.0.0.1' if instance.control_plane_only else '0.0.0.0'}",
        f"--advertise-address={instance.host_ip}",
        f"--service-cluster-ip-range={instance.service_cidr}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
        f"--kubelet-client-key={keys / 'kubelet-client.key'}",
        # else `kubectl logs` and `exec` look the node's name up
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={keys / 'sa.pub'}",
        f"--service-account-signing-key-file={keys / 'sa.key'}",
        # without these, aggregated APIs and Kueue log an error for ever
        f"--requestheader-client-ca-file={keys / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={keys / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={keys / 'front-proxy-client.key'}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit_log(instance)}",
        "--audit-log-maxsize=4000",
        # a SIGTERM otherwise drains open watches for a minute
        "--shutdown-watch-termination-grace-period=0s",
    ]
    if instance.control_plane_only:
        # An Endpoints object may not hold a loopback address: without a node nobody needs one.
        argv.append("--endpoint-reconciler-type=none")
    processes.start("kube-apiserver", argv)


def _start_managers(instance: Instance, processes: Processes, paths: dict[str, Path]) -> None:
    keys = instance.state / "pki"

    def common(name: str) -> list[str | Path]:
        config = keys / f"{name}.kubeconfig"
        return [
            paths[name],
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={instance.port(name)}",
        ]

    manager = common("kube-controller-manager")
    manager += ["--use-service-account-credentials", f"--service-account-private-key-file={keys / 'sa.key'}"]
    manager += [f"--root-ca-file={keys / 'ca.crt'}", f"--cluster-signing-cert-file={keys / 'ca.crt'}"]
    manager += [f"--cluster-signing-key-file={keys / 'ca.key'}", "--allocate-node-cidrs"]
    manager += [f"--cluster-cidr={instance.cluster_cidr}", f"--service-cluster-ip-range={instance.service_cidr}"]
    processes.start("kube-controller-manager", manager)
    processes.start("kube-scheduler", common("kube-scheduler"))


def wait_ready(instance: Instance, processes: Processes, timeout: float = 120) -> None:
    """Return when ``/readyz`` says ok; raise with the log's end when the server or etcd ends first."""
    keys = instance.state / "pki"
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "admin.crt", keys / "admin.key")

    def probe() -> str | None:
        processes.check("etcd")
        processes.check("kube-apiserver")
        connection = http.client.HTTPSConnection(
            instance.host_ip, instance.port("kube-apiserver"), timeout=2, context=context
        )
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return str(error)
        finally:
            connection.close()
        if answer.status == 200:
            return None
        return "; ".join(line for line in body.splitlines() if line.startswith("[-]")) or body[-300:]

    wait_for("API server ready", probe, timeout, f"Log: {instance.logs / 'kube-apiserver.log'}")
