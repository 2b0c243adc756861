"""D5: what the pages tell people to apply is accepted as it stands."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.tools import helm
from trainsweep.api.resolve import resolve
from trainsweep.api.sweepclass import TrainSweepClassSpec
from trainsweep.cli.yamlfile import parse
from trainsweep.render.admission import check_class

ROOT = Path(__file__).resolve().parents[3]
EKS = (ROOT / "docs/howto/eks.md").read_text(encoding="utf-8")


def block(text: str, marker: str, language: str) -> str:
    found = re.findall(rf"<!-- {re.escape(marker)} -->\n```{language}\n(.*?)```", text, re.DOTALL)
    assert len(found) == 1, marker
    return str(found[0])


def actions(policy: dict[str, Any]) -> set[str]:
    return {a for s in policy["Statement"] for a in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])}


def test_the_operator_s_policy_only_reads():
    policy = json.loads(block(EKS, "policy: operator", "json"))
    assert {"s3:ListBucket", "s3:GetObject"} <= actions(policy)
    for action in actions(policy):
        assert action.split(":")[1].startswith(("Get", "List")), action


def test_the_training_s_policy_writes_below_its_prefix_only():
    policy = json.loads(block(EKS, "policy: training", "json"))
    needed = {"s3:ListBucket", "s3:PutObject", "s3:GetObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
    assert needed <= actions(policy)
    for statement in policy["Statement"]:
        if not set(statement["Action"] if isinstance(statement["Action"], list) else []) & {"s3:PutObject"}:
            continue
        for resource in statement["Resource"]:
            assert resource.endswith("/team-a/*"), resource
    listing = [s for s in policy["Statement"] if "s3:ListBucket" in s["Action"]]
    assert all("Condition" in s for s in listing)


@pytest.mark.parametrize("marker", ["policy: training", "policy: operator", "policy: trust"])
def test_policies_are_of_the_current_language(marker: str):
    assert json.loads(block(EKS, marker, "json"))["Version"] == "2012-10-17"


def test_the_values_install(tmp_path: Path):
    file = tmp_path / "values.yaml"
    file.write_text(block(EKS, "values", "yaml"), encoding="utf-8")
    done = subprocess.run(
        [str(helm()), "template", "x", str(ROOT / "charts/trainsweep"), "--values", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    objects = [o for o in yaml.safe_load_all(done.stdout) if o]
    (item,) = [o for o in objects if o["kind"] == "TrainSweepClass"]
    TrainSweepClassSpec.model_validate(item["spec"])


def sweeps(page: str) -> list[dict[str, Any]]:
    """The TrainSweeps in a page's YAML blocks, read as kubectl reads them."""
    found = []
    for code in re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
        for document in parse(page, code.encode()):
            if isinstance(document.value, dict) and document.value.get("kind") == "TrainSweep":
                found.append(document.value)
    return found


@pytest.mark.parametrize("page", ["README.md"])
def test_sweeps_in_the_pages_are_admitted(page: str):
    found = sweeps(page)
    assert found
    for item in found:
        class_spec = TrainSweepClassSpec.model_validate(
            {
                "storage": {"allowedPrefixes": ["s3://example-training/{namespace}"]},
                "defaults": {"training": {"image": "registry.example/train:1"}},
            }
        )
        spec = resolve(item["spec"], class_spec)
        assert check_class(spec, item["spec"], class_spec, "team-a") == []


def test_the_class_for_platform_teams_admits_a_plain_sweep():
    text = (ROOT / "docs/howto/platform-teams.md").read_text(encoding="utf-8")
    (document,) = parse("class.yaml", block(text, "class: gpu-a10g", "yaml").encode())
    found = TrainSweepClassSpec.model_validate(document.value["spec"])
    spec = {
        "objective": {"metric": "loss", "mode": "Minimize"},
        "search": {"algorithm": {"random": {}}, "parameters": [{"name": "lr", "float": {"min": 1e-5, "max": 0.1}}]},
        "trials": {"count": 4},
        "training": {"entrypoint": "train:loop", "image": "registry.example/ml/train:1"},
        "storage": {"uri": "s3://example-training/team-a"},
    }
    assert [str(p) for p in check_class(resolve(spec, found), spec, found, "team-a")] == []
