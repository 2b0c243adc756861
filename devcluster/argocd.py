"""Argo CD beside the cluster: its controller, repository server and API server as processes of this machine.

Manifests of its own (CRDs) are read from its Go module. It syncs from folders of this machine (`file:///...` of a Git
repository) and its API server asks nobody who they are: a thing for tests.
"""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import urllib.error
import urllib.request
from base64 import b64encode
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devcluster import golang, programs
from devcluster.errors import DevClusterError
from devcluster.kuberay import apply_all, namespace
from devcluster.report import step
from devcluster.waiting import wait_for

if TYPE_CHECKING:
    from devcluster.cluster import Cluster

NAMESPACE = "argocd"
_PART = {"app.kubernetes.io/part-of": "argocd"}
_CRDS = ("application", "appproject", "applicationset")
_CONFIG_MAPS = ("argocd-rbac-cm", "argocd-gpg-keys-cm", "argocd-ssh-known-hosts-cm", "argocd-tls-certs-cm")
_RESYNC = "20"


def install(cluster: Cluster, *, settings: dict[str, str] | None = None) -> None:
    """Apply Argo CD's CRDs and settings and start its programs; return when all of them answer.

    Args:
        cluster: the cluster; one without a node will do.
        settings: keys of the ConfigMap `argocd-cm`.

    Raises:
        DevClusterError: a program ended or does not answer.
    """
    version = programs.ARGOCD.version
    binaries = {name: programs.path(name) for name in programs.ARGOCD_PROGRAMS}
    with step(f"Argo CD {version}", "10 s"):
        module = golang.module_dir(programs.ARGOCD)
        files = [module / "manifests" / "crds" / f"{name}-crd.yaml" for name in _CRDS]
        cluster.kubectl("apply", "--server-side", "--force-conflicts", *(word for one in files for word in ("-f", one)))
        wait_for("Argo CD's CRDs", partial(_established, cluster), 60)
        apply_all(cluster, _objects(settings or {}))
        _start(cluster, binaries, _folders(cluster, module))


def server_url(cluster: Cluster) -> str:
    """URL of Argo CD's API server."""
    return f"http://127.0.0.1:{cluster.instance.port('argocd-server')}"


def call(cluster: Cluster, method: str, path: str, body: Any = None) -> Any:
    """A request to Argo CD's API; the decoded answer.

    Raises:
        DevClusterError: it refused; the message is its own.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # our own address
        server_url(cluster) + path, data, {"Content-Type": "application/json"}, method=method
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        raise DevClusterError(f"{method} {path}: HTTP {error.code}: {error.read().decode(errors='replace')}") from error


def _established(cluster: Cluster) -> str | None:
    names = [f"{name}s.argoproj.io" for name in _CRDS]
    found = json.loads(cluster.kubectl("get", "crd", *names, "-o", "json"))["items"]
    conditions = [c for item in found for c in item.get("status", {}).get("conditions") or []]
    done = [c for c in conditions if c["type"] == "Established" and c["status"] == "True"]
    return None if len(done) == len(names) else f"{len(done)} of {len(names)} are established"


def _objects(settings: dict[str, str]) -> list[dict[str, Any]]:
    def config(name: str, data: dict[str, str] | None = None) -> dict[str, Any]:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": _PART}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}

    def secret(name: str, data: dict[str, str]) -> dict[str, Any]:
        metadata = {"name": name, "namespace": NAMESPACE, "labels": _PART}
        encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}

    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "default", "namespace": NAMESPACE},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    }
    return [
        namespace(NAMESPACE),
        config("argocd-cm", settings),
        config("argocd-cmd-params-cm"),
        *(config(name) for name in _CONFIG_MAPS),
        secret("argocd-secret", {"server.secretkey": secrets.token_hex(32)}),
        secret("argocd-redis", {"auth": ""}),
        project,
    ]


def _folders(cluster: Cluster, module: Path) -> dict[str, str]:
    """Folders that the programs want to be somewhere, as their environment names them."""
    state = cluster.state_dir / "argocd"
    variables = {
        "ARGOCD_PLUGINSOCKFILEPATH": "plugins",
        "ARGOCD_GNUPGHOME": "gpg/keys",
        "ARGOCD_GPG_DATA_PATH": "gpg/source",
        "ARGOCD_TLS_DATA_PATH": "tls",
        "ARGOCD_SSH_DATA_PATH": "ssh",
        "TMPDIR": "tmp",
    }
    found = {}
    for variable, name in variables.items():
        folder = state / name
        folder.mkdir(parents=True, exist_ok=True)
        found[variable] = str(folder)
    wrapper = state / "bin" / "git-verify-wrapper.sh"
    wrapper.parent.mkdir(exist_ok=True)
    shutil.copyfile(module / "hack" / wrapper.name, wrapper)
    wrapper.chmod(0o755)
    return found


def _start(cluster: Cluster, binaries: dict[str, Path], folders: dict[str, str]) -> None:
    instance, processes = cluster.instance, cluster.processes
    port = instance.port
    cache = f"127.0.0.1:{port('argocd-cache')}"
    repository = f"127.0.0.1:{port('argocd-repo-server')}"
    path = f"{cluster.state_dir / 'argocd' / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env = {"ARGOCD_FAKE_IN_CLUSTER": "true", "ARGOCD_GPG_ENABLED": "false", "PATH": path, **folders}
    env["KUBECONFIG"] = str(cluster.kubeconfig)  # what "in the cluster" means then
    api: list[str | Path] = ["--kubeconfig", cluster.kubeconfig, "--namespace", NAMESPACE, "--redis", cache]
    plain: list[str | Path] = ["--repo-server", repository, "--repo-server-plaintext"]
    plain += ["--repo-server-client-cert-path", "", "--repo-server-client-cert-key-path", ""]
    arguments: dict[str, list[str | Path]] = {
        "argocd-cache": ["--address", cache],
        "argocd-repo-server": [
            *["--address", "127.0.0.1", "--port", str(port("argocd-repo-server"))],
            *["--metrics-address", "127.0.0.1", "--metrics-port", str(port("argocd-repo-server-metrics"))],
            *["--disable-tls", "--client-ca-path", "", "--redis", cache],
        ],
        "argocd-application-controller": [
            *api,
            *plain,
            *["--metrics-port", str(port("argocd-application-controller-metrics"))],
            *["--app-resync", _RESYNC, "--app-resync-jitter", "0", "--self-heal-backoff-timeout-seconds", "2"],
        ],
        "argocd-server": [
            *api,
            *plain,
            *["--address", "127.0.0.1", "--port", str(port("argocd-server"))],
            *["--metrics-address", "127.0.0.1", "--metrics-port", str(port("argocd-server-metrics"))],
            *["--insecure", "--disable-auth"],
        ],
    }
    for name, words in arguments.items():
        if processes.alive(name):
            continue  # a cluster that was left up
        processes.start(name, [binaries[name], *words], env=env)
    for name, at in (
        ("argocd-repo-server", "argocd-repo-server-metrics"),
        ("argocd-application-controller", "argocd-application-controller-metrics"),
        ("argocd-server", "argocd-server"),
    ):
        probe = partial(_ready, cluster, name, port(at))
        wait_for(f"{name} ready", probe, 90, f"Log: {instance.logs / name}.log")


def _ready(cluster: Cluster, program: str, port: int) -> str | None:
    cluster.processes.check(program)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    finally:
        connection.close()
    return None if status == 200 else f"HTTP {status}"
