"""The node pools of the EKS overlay: they outlive the sweeps of the example class, cap what they cost, and fit its pods."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.unit.chart.conftest import ROOT

EKS = ROOT / "manifests/overlays/eks"
OBJECTS = [
    item
    for path in sorted((EKS / "nodes").glob("*.yaml"))
    for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    if item["kind"] in ("NodePool", "EC2NodeClass")
]
POOLS: dict[str, dict[str, Any]] = {o["metadata"]["name"]: o["spec"] for o in OBJECTS if o["kind"] == "NodePool"}
CLASSES = {o["metadata"]["name"]: o["spec"] for o in OBJECTS if o["kind"] == "EC2NodeClass"}
LIMITS = yaml.safe_load((EKS / "class.yaml").read_text(encoding="utf-8"))["spec"]["limits"]
SECONDS = {"h": 3600, "m": 60, "s": 1}


def requirement(pool: str, key: str) -> list[str]:
    found = [r["values"] for r in POOLS[pool]["template"]["spec"]["requirements"] if r["key"] == key]
    return [value for values in found for value in values]


def test_there_is_a_pool_for_each_way_to_buy() -> None:
    bought = {name: requirement(name, "karpenter.sh/capacity-type") for name in POOLS}
    assert bought == {
        "on-demand": ["on-demand"],
        "gpu-spot": ["spot"],
        "gpu-on-demand": ["on-demand"],
        "gpu-block": ["reserved"],
    }


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_is_capped_and_lets_no_running_node_go(name: str) -> None:
    pool = POOLS[name]
    assert pool["limits"], "without a limit a pool has no bound"
    assert pool["disruption"]["consolidationPolicy"] == "WhenEmpty"
    reference = pool["template"]["spec"]["nodeClassRef"]
    assert (reference["kind"], reference["name"] in CLASSES) == ("EC2NodeClass", True)
    expires = pool["template"]["spec"]["expireAfter"]
    if expires != "Never":
        number, unit = re.fullmatch(r"(\d+)([hms])", expires).groups()
        assert int(number) * SECONDS[unit] > LIMITS["totalSeconds"], "expiration asks nobody"


@pytest.mark.parametrize("name", [name for name in POOLS if name.startswith("gpu")])
def test_a_gpu_pool_is_tainted_as_our_pods_tolerate(name: str) -> None:
    taints = POOLS[name]["template"]["spec"]["taints"]
    assert [(t["key"], t["effect"]) for t in taints] == [("nvidia.com/gpu", "NoSchedule")]
    assert "nvidia.com/gpu" in POOLS[name]["limits"]


@pytest.mark.parametrize("name", CLASSES)
def test_no_pod_reaches_the_node_s_role(name: str) -> None:
    assert CLASSES[name]["metadataOptions"] == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert all("latest" not in term["alias"] for term in CLASSES[name]["amiSelectorTerms"])


def test_the_block_names_its_reservation() -> None:
    assert CLASSES["gpu-block"]["capacityReservationSelectorTerms"]
    assert requirement("gpu-block", "karpenter.k8s.aws/capacity-reservation-type") == ["capacity-block"]


def test_the_operator_s_selector_finds_the_on_demand_pool() -> None:
    deployment = yaml.safe_load((EKS / "deployment.yaml").read_text(encoding="utf-8"))
    selector = deployment["spec"]["template"]["spec"]["nodeSelector"]
    assert selector["karpenter.sh/capacity-type"] in requirement("on-demand", "karpenter.sh/capacity-type")


def test_the_cache_is_read_only_and_bound_to_its_claim() -> None:
    volume, claim = yaml.safe_load_all((EKS / "cache/fsx.yaml").read_text(encoding="utf-8"))
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert "ro" in volume["spec"]["mountOptions"]
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert volume["spec"]["claimRef"] == {
        "namespace": claim["metadata"]["namespace"],
        "name": claim["metadata"]["name"],
    }
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
