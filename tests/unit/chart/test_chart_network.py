"""The optional objects around the operator's pod: what they select is that pod, and what they allow is what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.chart.test_chart_render import INSTALLS, of_kind, only, pod_spec

pytestmark = pytest.mark.slow

OPTIONAL = ("NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor")


def pod_labels(objects: list[dict[str, Any]]) -> dict[str, str]:
    labels: dict[str, str] = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    return labels


def test_none_comes_unasked(render):
    assert not {o["kind"] for o in render()} & set(OPTIONAL)


@pytest.mark.parametrize("kind", ["NetworkPolicy", "PodDisruptionBudget"])
def test_what_selects_the_pod_finds_it(render, kind):
    objects = render(INSTALLS["everything"])
    spec = only(objects, kind)["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    assert selector["matchLabels"].items() <= pod_labels(objects).items()
    assert only(objects, kind)["metadata"]["namespace"] == only(objects, "Deployment")["metadata"]["namespace"]


def test_the_monitor_finds_the_service_and_its_port(render):
    objects = render(INSTALLS["everything"])
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["interval"] == "15s"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert not of_kind(render({"metrics": {"service": False}}), "Service")


def test_the_policy_lets_in_metrics_and_out_dns_api_server_and_store(render):
    policy = only(render({"networkPolicy": {"enabled": True}}), "NetworkPolicy")["spec"]
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    (ingress,) = policy["ingress"]
    (container,) = pod_spec(render())["containers"]
    assert ingress["ports"] == [{"protocol": "TCP", "port": container["ports"][0]["name"]}]
    assert "from" not in ingress
    dns, out = policy["egress"]
    assert {(p["protocol"], p["port"]) for p in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert [(p["protocol"], p["port"]) for p in out["ports"]] == [("TCP", 443), ("TCP", 6443)]
    assert "to" not in out


def test_the_policy_s_peers_are_those_given(render):
    policy = only(render(INSTALLS["everything"]), "NetworkPolicy")["spec"]
    given = INSTALLS["everything"]["networkPolicy"]
    assert policy["ingress"][0]["from"] == given["metricsFrom"]
    assert policy["egress"][1]["to"] == given["egressTo"]
    assert [p["port"] for p in policy["egress"][1]["ports"]] == given["egressPorts"]


def test_a_budget_of_nothing_is_kept_as_a_number(render):
    assert only(render(INSTALLS["everything"]), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 0


def test_pod_identity_needs_a_name_and_no_annotation(render):
    """An EKS Pod Identity association names the ServiceAccount: nothing is annotated."""
    account = only(render(INSTALLS["pod identity"]), "ServiceAccount")
    assert account["metadata"]["name"] == "trainsweep-operator"
    assert "annotations" not in account["metadata"]
