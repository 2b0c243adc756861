"""The dev cluster itself: it comes up, serves, survives chaos, and leaves the machine as it found it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from devcluster import Cluster, DevClusterError
from devcluster.cli import main
from devcluster.paths import state_dir

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="a node with pods needs root")


def footprint(name: str) -> dict[str, list[str]]:
    """What an instance could leave: links, mounts, iptables, control groups, folders, processes that name its state."""

    def lines(*argv: str) -> list[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()

    state = str(state_dir(name))
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if state in words:
            processes.append(words)
    rules = [line for line in lines("iptables-save") if line.startswith(("-A", "-N"))]
    mine = f"trainsweep-{name}"
    return {
        "links": sorted(line.split(":")[1].split("@")[0] for line in lines("ip", "-o", "link")),
        "routes": sorted(lines("ip", "route")),
        "mounts": sorted(line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if state in line),
        "iptables": sorted(rules),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").rglob("*") if mine in path.parts),
        "processes": processes,
        "folders": [state] if Path(state).exists() else [],
        "cni": sorted(str(path) for path in Path("/var/lib/cni").rglob(f"{mine}*")),
        "logs": sorted(
            str(path)
            for path in Path("/var/log/containers").glob("*")
            if path.is_symlink() and os.readlink(path).startswith(state)
        ),
    }


@pytest.mark.timeout(900)
def test_a_control_plane_serves_audits_survives_a_kill_and_leaves_nothing() -> None:
    name = "itself-cp"
    before = footprint(name)
    with Cluster(name, control_plane_only=True, s3=True) as cluster:
        cluster.kubectl("create", "configmap", "seen", "--from-literal=a=b", "-n", "default")
        assert not cluster.up()  # a live one is left alone
        events = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
        create = next(one for one in events if one["verb"] == "create" and one["objectRef"].get("name") == "seen")
        assert create["user"]["username"] == "devcluster-admin"
        assert create["userAgent"].startswith("kubectl")

        # the garbage collector is what the tests of foreground deletion stand on
        owner = json.loads(cluster.kubectl("get", "configmap", "seen", "-n", "default", "-o", "json"))["metadata"][
            "uid"
        ]
        owned = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "owned",
                "namespace": "default",
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "seen", "uid": owner}],
            },
        }
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(owned))
        cluster.kubectl("delete", "configmap", "seen", "-n", "default", "--cascade=foreground", "--timeout=120s")
        cluster.kubectl("wait", "--for=delete", "configmap/owned", "-n", "default", "--timeout=120s")

        cluster.kill("kube-apiserver")
        assert not cluster.alive
        cluster.start("kube-apiserver")
        assert "kube-root-ca.crt" in cluster.kubectl("get", "configmaps", "-n", "default")
        assert "CreateBucket" in cluster.s3_access_log.read_text()
    assert footprint(name) == before


@pytest.mark.timeout(300)
def test_two_control_planes_live_side_by_side_and_a_killed_one_is_replaced() -> None:
    with Cluster("itself-a", control_plane_only=True) as first, Cluster("itself-b", control_plane_only=True) as second:
        assert first.server != second.server
        first.kubectl("create", "namespace", "only-here")
        assert "only-here" not in second.kubectl("get", "namespaces")
        for program in second.processes.names():
            second.kill(program)
        assert second.up()
        assert "default" in second.kubectl("get", "namespaces")


def test_what_is_not_up_is_said_with_the_command_that_helps(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DevClusterError, match="python -m devcluster up --name itself-none"):
        _ = Cluster("itself-none").server
    assert main(["env", "--name", "itself-none"]) == 1
    assert "python -m devcluster up" in capsys.readouterr().err
    assert main(["down", "--name", "itself-none"]) == 0


@root_only
@pytest.mark.timeout(1800)
def test_a_full_cluster_runs_a_pod_with_dns_services_and_s3_and_leaves_nothing() -> None:
    name = "itself"
    before = footprint(name)
    with Cluster(name, with_kuberay=False) as cluster:
        script = (
            "set -e; getent hosts kubernetes.default; "
            "wget -q -O- --no-check-certificate https://kubernetes.default.svc/version; "
            f"wget -q -O- {cluster.s3_endpoint}/health; echo; echo reached; exec sleep 600"
        )
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "probe",
                        "image": cluster.base_image,
                        "imagePullPolicy": "Never",
                        "command": ["bash", "-c", script],
                        "readinessProbe": {"exec": {"command": ["true"]}},
                    }
                ],
            },
        }
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        cluster.kubectl("wait", "--for=condition=Ready", "pod/probe", "--timeout=90s")
        cluster.kubectl("exec", "probe", "--", "sh", "-c", "until pgrep -x sleep; do sleep 0.2; done", timeout=60)
        logs = cluster.kubectl("logs", "probe")
        assert logs.splitlines()[0].startswith(cluster.instance.service_ip)
        assert logs.rstrip().endswith("reached")
        cluster.set_gpus(4)
        shown = cluster.kubectl(
            "get", "node", cluster.node_name, "-o", "jsonpath={.status.allocatable.nvidia\\.com/gpu}"
        )
        assert shown == "4"
    assert footprint(name) == before
