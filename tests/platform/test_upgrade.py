"""Helm, on a real cluster: an upgrade from the first chart restarts nothing, and CRDs and sweeps outlive the release."""

from __future__ import annotations

import os
import subprocess

import yaml

from devcluster import sweeps
from tests.e2e.lab import Lab
from tests.platform.conftest import LIVE, ROOT, Upgraded, kubectl_json, lives
from tests.together import concurrent


def test_an_upgrade_with_a_live_sweep_restarts_nothing(upgraded: Upgraded) -> None:
    lab = upgraded.lab
    assert upgraded.before["rayjobs"], "the sweep ran before the upgrade"
    assert upgraded.after == upgraded.before
    assert lives(lab)["rayjobs"] in (upgraded.before["rayjobs"], [])


@concurrent
def test_the_sweep_of_the_old_operator_and_driver_ends_well_under_the_new_one(upgraded: Upgraded) -> None:
    lab = upgraded.lab
    done = lab.finished(LIVE, 300)
    assert done.condition("Succeeded")[:2] == ("True", "Completed"), done
    assert done.condition("CheckpointsVerified")[0] == "True", done
    assert [a["number"] for a in done.status["attempts"]] == [1]
    assert done.body["metadata"]["uid"] == upgraded.before["sweep"]
    assert done.body["spec"] == upgraded.before["spec"]
    lab.released(LIVE)


def test_the_crds_are_those_of_the_new_chart(lab: Lab) -> None:
    for path in sorted((ROOT / "manifests/crd").glob("trainsweep.io_*.yaml")):
        wanted = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = kubectl_json(lab, "crd", wanted["metadata"]["name"])
        assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        schema = found["spec"]["versions"][0]["schema"]
        assert schema == wanted["spec"]["versions"][0]["schema"]


def test_an_uninstall_is_refused_while_a_sweep_lives_and_goes_through_afterwards(lab: Lab) -> None:
    name = "stays"
    lab.apply(name, {"training": {"config": {"epochs": 60, "seconds": 1.5}}})
    lab.reported(name)
    refused = helm(lab, "uninstall", sweeps.RELEASE, "--namespace", sweeps.NAMESPACE, "--timeout", "120s")
    assert refused.returncode != 0, refused.stdout
    said = refused.stderr + lab.cluster.kubectl(
        "logs", "-n", sweeps.NAMESPACE, "-l", "app.kubernetes.io/component=before-leaving", "--tail=20"
    )
    assert f"default/{name}" in said, said
    lab.rollout()
    found = lab.get(name)
    assert found is not None
    assert found.condition("Finished")[0] == "False", "the sweep runs on"
    lab.delete(name, wait=True)
    gone = helm(lab, "uninstall", sweeps.RELEASE, "--namespace", sweeps.NAMESPACE, "--timeout", "120s")
    assert gone.returncode == 0, gone.stderr
    kept = lab.get(LIVE)
    assert kept is not None, "CRDs and finished sweeps stay"
    assert "finalizers" not in kept.body["metadata"]
    lab.delete(LIVE, wait=True)
    sweeps.install(lab.cluster)


def helm(lab: Lab, *args: str) -> subprocess.CompletedProcess[str]:
    """Runs helm against the cluster."""
    argv = [str(lab.cluster.helm_bin), *args, "--kubeconfig", str(lab.cluster.kubeconfig)]
    env = {**os.environ, "NO_PROXY": lab.cluster.instance.host_ip}
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False, timeout=300)
