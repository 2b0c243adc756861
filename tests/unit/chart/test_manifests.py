"""`manifests/` installs what the chart installs; the EKS example changes only what it says."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml

from devcluster.tools import kubectl
from tests.unit.chart.conftest import ROOT
from trainsweep.api.sweepclass import TrainSweepClassSpec

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kustomize():
    def run(folder: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [str(kubectl()), "kustomize", folder], capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.safe_load_all(done.stdout) if item]

    return run


def test_the_generated_files_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ".ci/manifests.py", "--check"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_drift_is_found_and_mended(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    manifests = importlib.import_module("manifests")
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    shutil.copytree(ROOT / "manifests", tmp_path / "manifests")
    monkeypatch.setattr(manifests, "ROOT", tmp_path)
    assert manifests.main(["--check"]) == 0
    with (tmp_path / "manifests/default/rbac.yaml").open("a", encoding="utf-8") as file:
        file.write("# by hand\n")
    assert manifests.main(["--check"]) == 1
    assert "manifests/default/rbac.yaml is out of date" in capsys.readouterr().err
    assert manifests.main([]) == 0
    assert manifests.main(["--check"]) == 0


def test_kustomize_and_helm_install_the_same(kustomize, render):
    def specs(objects: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
        return {
            (o["kind"], o["metadata"]["name"]): o.get("rules")
            or o.get("subjects")
            or o["spec"].get("template", {}).get("spec")
            for o in objects
            if o["kind"] in ("ClusterRole", "Deployment")
        }

    assert specs(kustomize("manifests/default")) == specs(render())


def test_the_namespace_holds_its_pods_to_the_restricted_standard(kustomize):
    (namespace,) = [o for o in kustomize("manifests/default") if o["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_eks_overlay_adds_an_identity_and_keeps_the_rest(kustomize):
    objects = kustomize("manifests/overlays/eks")
    (account,) = [o for o in objects if o["kind"] == "ServiceAccount"]
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].startswith("arn:aws:iam::")
    (deployment,) = [o for o in objects if o["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    env = {item["name"]: item["value"] for item in spec["containers"][0]["env"]}
    assert env["AWS_EC2_METADATA_DISABLED"] == "true"
    assert "TRAINSWEEP_RESYNC_SECONDS" in env
    assert spec["nodeSelector"] == {"karpenter.sh/capacity-type": "on-demand"}


def test_the_example_class_is_one_that_the_operator_accepts():
    item = yaml.safe_load((ROOT / "manifests/overlays/eks/class.yaml").read_text(encoding="utf-8"))
    spec = TrainSweepClassSpec.model_validate(item["spec"])
    assert spec.storage.allowed_prefixes == ["s3://example-training/{namespace}"]
