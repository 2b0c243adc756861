"""Dashboard and alerts are the files beside the chart, byte for byte; both are off until they are asked for."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[3] / "charts/trainsweep"


def test_they_are_off_by_default(render):
    assert not {"PrometheusRule"} & {o["kind"] for o in render()}
    assert not [o for o in render() if o["metadata"]["name"].endswith("-dashboard")]


def test_the_dashboard_and_the_rules_are_those_of_the_files(render):
    objects = render({"monitoring": {"dashboard": True, "alerts": True}})
    (board,) = [o for o in objects if o["kind"] == "ConfigMap"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["trainsweep.json"]) == json.loads(
        (CHART / "dashboards/trainsweep.json").read_text()
    )
    (rule,) = [o for o in objects if o["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load((CHART / "alerts/trainsweep.yaml").read_text(encoding="utf-8"))
