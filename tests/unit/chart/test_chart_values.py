"""Wrong values are refused before anything is installed, and the message names the value."""

from __future__ import annotations

from typing import Any

import pytest

CLASS = {"create": True, "spec": {"storage": {"allowedPrefixes": ["s3://b"]}}}

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown value": ({"replicas": 2}, "'replicas'", "not allowed"),
    "unknown value inside": ({"image": {"name": "x"}}, "/image", "'name' not allowed"),
    "pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", "'Always', 'IfNotPresent', 'Never'"),
    "repository with a digest": ({"image": {"repository": "a@sha256:b"}}, "/image/repository", "does not match"),
    "short digest": ({"image": {"digest": "sha256:abc"}}, "/image/digest", "sha256:[0-9a-f]{64}"),
    "namespaces as a string": ({"watchNamespaces": "team-a"}, "/watchNamespaces", "want array"),
    "namespace that is none": ({"watchNamespaces": ["Team_A"]}, "/watchNamespaces/0", "'Team_A'"),
    "namespace named twice": ({"watchNamespaces": ["a", "a"]}, "/watchNamespaces", "are equal"),
    "resync of 0": ({"operator": {"resyncSeconds": 0}}, "/operator/resyncSeconds", "want 1"),
    "resync as text": ({"operator": {"resyncSeconds": "10m"}}, "/operator/resyncSeconds", "want integer"),
    "log level": ({"operator": {"logLevel": "info"}}, "/operator/logLevel", "'INFO'"),
    "role that is no ARN": (
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "my-role"}}},
        "eks.amazonaws.com~1role-arn",
        "'my-role'",
    ),
    "no service account": ({"serviceAccount": {"create": False}}, "serviceAccount.name", "serviceAccount.create"),
    "environment of ours": (
        {"extraEnv": [{"name": "TRAINSWEEP_WORKERS", "value": "1"}]},
        "extraEnv: TRAINSWEEP_WORKERS",
        "operator.workers",
    ),
    "label of ours": (
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        "podLabels: app.kubernetes.io/name",
        "nameOverride",
    ),
    "environment without a name": ({"extraEnv": [{"value": "1"}]}, "/extraEnv/0", "'name'"),
    "memory": ({"resources": {"limits": {"memory": "lots"}}}, "/resources/limits/memory", "'lots'"),
    "node selector with a boolean": ({"nodeSelector": {"gpu": True}}, "/nodeSelector/gpu", "want string"),
    "port of a network policy": (
        {"networkPolicy": {"egressPorts": [443, 99999]}},
        "/networkPolicy/egressPorts/1",
        "65,535",
    ),
    "ports as text": ({"networkPolicy": {"egressPorts": "443"}}, "/networkPolicy/egressPorts", "want array"),
    "a network policy to nobody": ({"networkPolicy": {"egressPorts": []}}, "/networkPolicy/egressPorts", "minItems"),
    "peer that is none": (
        {"networkPolicy": {"egressTo": [{"cidr": "10.0.0.0/8"}]}},
        "/networkPolicy/egressTo/0",
        "'cidr'",
    ),
    "budget for two": ({"podDisruptionBudget": {"maxUnavailable": 2}}, "/podDisruptionBudget/maxUnavailable", "want 1"),
    "scrape interval": (
        {"metrics": {"serviceMonitor": {"interval": "often"}}},
        "/metrics/serviceMonitor/interval",
        "'often'",
    ),
    "monitor without a service": (
        {"metrics": {"service": False, "serviceMonitor": {"enabled": True}}},
        "metrics.serviceMonitor.enabled",
        "metrics.service",
    ),
    "spread as a map": ({"topologySpreadConstraints": {}}, "/topologySpreadConstraints", "want array"),
    "class without prefixes": ({"defaultClass": {"create": True}}, "/defaultClass/spec", "'storage'"),
    "class with a prefix that is no URI": (
        {"defaultClass": {"create": True, "spec": {"storage": {"allowedPrefixes": ["bucket/x"]}}}},
        "/defaultClass/spec/storage/allowedPrefixes/0",
        "'bucket/x'",
    ),
    "class with an unknown field": (
        {"defaultClass": {**CLASS, "spec": {**CLASS["spec"], "quota": {}}}},
        "/defaultClass/spec",
        "'quota' not allowed",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_value_is_refused_by_name(template, case):
    values, where, what = REFUSED[case]
    done = template(values)
    assert done.returncode != 0
    assert where in done.stderr
    assert what in done.stderr


def test_the_neighbours_of_the_refused_are_accepted(template):
    for values in (
        {"image": {"repository": "registry.example:5000/a/b", "tag": "v1.0.0_rc.1"}},
        {"operator": {"resyncSeconds": 1, "workers": 256, "logLevel": "ERROR"}},
        {"watchNamespaces": ["a", "team-1"]},
        {"resources": {"limits": {"memory": "1.5Gi", "cpu": 2}, "requests": {"cpu": "250m"}}},
        {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws-cn:iam::111122223333:role/a/b"}}},
        {"defaultClass": CLASS},
        {"global": {"anything": 1}},
        {"networkPolicy": {"enabled": True, "egressPorts": [65535], "egressTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}},
        {"podDisruptionBudget": {"enabled": True, "maxUnavailable": 0}},
        {"metrics": {"serviceMonitor": {"enabled": True, "interval": "1m30s"}}},
        {
            "extraEnv": [
                {"name": "AWS_REGION", "value": "eu-west-1"},
                {"name": "TRAINSWEEP_STARTUP_SECONDS", "value": "9"},
            ]
        },
    ):
        done = template(values)
        assert done.returncode == 0, done.stderr
