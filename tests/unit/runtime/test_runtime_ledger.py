"""What sweeps add up to, and that page, dashboard and alerts speak of metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.unit.core.core_builders import Stage, klass
from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.status import (
    AttemptStatus,
    ConditionStatus,
    LineStatus,
    PendingStatus,
    TrainSweepStatus,
    UsageStatus,
)
from trainsweep.core.model import Observed, Plan, WriteStatus
from trainsweep.runtime.keys import SweepKey
from trainsweep.runtime.ledger import Ledger
from trainsweep.runtime.metrics import Metrics
from trainsweep.runtime.operator import Process
from trainsweep.runtime.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
KEY, OTHER = SweepKey("team", "digits"), SweepKey("team-b", "mnist")
AT = "2026-01-01T00:00:00Z"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def condition(kind: Condition, status: Any, reason: str) -> ConditionStatus:
    return ConditionStatus(type=kind, status=status, reason=reason, last_transition_time=AT)


def seen(**status: Any) -> tuple[Observed, Plan]:
    observed = Stage(sweep_class=klass(limits={"gpuHours": 2})).observed()
    return observed, Plan((WriteStatus(TrainSweepStatus(**status)),))


@pytest.fixture
def ledger() -> tuple[Ledger, Metrics, Clock]:
    metrics, clock = Metrics(), Clock()
    return Ledger(metrics, clock), metrics, clock


def lines(metrics: Metrics, ledger: Ledger, name: str) -> list[str]:
    metrics.before = ledger.expose
    return [line for line in metrics.text().decode().splitlines() if line.startswith(f"{name}{{")]


def test_waiting_is_counted_by_layer_between_two_looks(ledger: tuple[Ledger, Metrics, Clock]) -> None:
    books, metrics, clock = ledger
    waiting = PendingStatus(layer="Placement", reason="NoNodes", message="")
    books.saw(KEY, *seen(pending=waiting))
    clock.now += 25
    books.saw(KEY, *seen(pending=waiting))
    clock.now += 5000
    books.saw(KEY, *seen())
    assert lines(metrics, books, "trainsweep_pending_seconds_total") == [
        'trainsweep_pending_seconds_total{layer="Placement"} 25.0'
    ], "a pause of the process is no waiting"
    assert lines(metrics, books, "trainsweep_pending_sweeps") == []


def test_gpu_seconds_attempts_and_ends_are_counted_once(ledger: tuple[Ledger, Metrics, Clock]) -> None:
    books, metrics, _ = ledger
    ended = AttemptStatus(number=1, ray_job="a1", end_class="Eviction")
    done = (condition(Condition.FINISHED, "True", "Failed"), condition(Condition.SUCCEEDED, "False", Reason.FAILED))
    books.saw(KEY, *seen(usage=UsageStatus(gpu_seconds=100)))
    for _ in range(2):
        books.saw(KEY, *seen(usage=UsageStatus(gpu_seconds=3700), attempts=[ended]))
    assert lines(metrics, books, "trainsweep_gpu_seconds_total") == [
        'trainsweep_gpu_seconds_total{class="default",namespace="team"} 3600.0'
    ]
    assert lines(metrics, books, "trainsweep_attempts_ended_total") == [
        'trainsweep_attempts_ended_total{class="default",end="Eviction"} 1.0'
    ]
    assert lines(metrics, books, "trainsweep_budget_used_ratio")[0].endswith(f" {3700 / 7200}")
    books.saw(KEY, *seen(usage=UsageStatus(gpu_seconds=3700), attempts=[ended], conditions=list(done)))
    assert lines(metrics, books, "trainsweep_sweeps_finished_total") == [
        'trainsweep_sweeps_finished_total{class="default",reason="Failed"} 1.0'
    ]
    assert lines(metrics, books, "trainsweep_sweeps") == ['trainsweep_sweeps{class="default",state="Failed"} 1.0']


def test_who_waits_in_line_is_woken_when_gpus_are_let_go(ledger: tuple[Ledger, Metrics, Clock]) -> None:
    books, _, _ = ledger
    books.saw(OTHER, *seen(pending=PendingStatus(layer="ClassLimit", reason="InLine", message="")))
    holds = {"line": LineStatus(ticket=1, gpus=1, holds=True)}
    live, gone = AttemptStatus(number=1, ray_job="a1"), AttemptStatus(number=1, ray_job="a1", gone_at=AT)
    assert books.saw(KEY, *seen(attempts=[live], **holds)) == []
    assert books.saw(KEY, *seen(attempts=[gone], **holds)) == [], "between two attempts it keeps its place"
    done = [condition(Condition.FINISHED, "True", "Failed")]
    assert books.saw(KEY, *seen(attempts=[gone], conditions=done, **holds)) == [OTHER]
    books.saw(KEY, *seen(attempts=[live], **holds))
    assert books.forget(KEY) == [OTHER]


@pytest.fixture(scope="module")
def names() -> dict[str, set[str]]:
    """Every metric that a process serves, with its labels."""
    metrics = Metrics()
    Process(Settings(), SimpleNamespace(last_success=0.0), metrics)  # type: ignore[arg-type]  # a double, or a union that the stub leaves out
    found = {}
    for metric in metrics.registry._collector_to_names:
        name = getattr(metric, "_name", "")
        if name.startswith("trainsweep_"):
            total = "_total" if metric._type == "counter" else ""  # type: ignore[attr-defined]  # not in the stubs
            found[f"{name}{total}"] = set(metric._labelnames)  # type: ignore[attr-defined]  # not in the stubs
    return found


def test_the_page_lists_every_metric_with_its_labels_and_no_other(names: dict[str, set[str]]) -> None:
    text = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(trainsweep_\w+)` \|([^|]*)\|", text, re.MULTILINE)
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == names


def unknown(expression: str, names: dict[str, set[str]]) -> list[str]:
    """Metrics and labels of an expression that no process serves."""
    found = []
    for metric in re.findall(r"trainsweep_\w+", expression):
        base = re.sub(r"_(bucket|sum|count)$", "", metric)
        if metric not in names and base not in names:
            found.append(metric)
        labels = names.get(metric, names.get(base, set())) | {"le"}
        used = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
        for group in re.findall(r"by \(([^)]*)\)", expression):
            used += [label.strip() for label in group.split(",")]
        found += [label for label in used if label not in labels]
    return found


def test_the_dashboard_asks_for_metrics_that_exist(names: dict[str, set[str]]) -> None:
    board = json.loads((ROOT / "charts/trainsweep/dashboards/trainsweep.json").read_text(encoding="utf-8"))
    asked = {t["expr"]: p["title"] for p in board["panels"] for t in p["targets"]}
    assert {expression: unknown(expression, names) for expression in asked} == {e: [] for e in asked}
    assert {m for e in asked for m in re.findall(r"trainsweep_\w+?(?=_bucket|\b)", e)} >= set(names) - {
        "trainsweep_actions_total",
        "trainsweep_orphans_removed_total",
    }
    places = [tuple(p["gridPos"][k] for k in "xywh") for p in board["panels"]]
    assert len(set(places)) == len(places)


def test_alerts_ask_for_metrics_that_exist_name_real_reasons_and_are_on_the_page(names: dict[str, set[str]]) -> None:
    rules = yaml.safe_load((ROOT / "charts/trainsweep/alerts/trainsweep.yaml").read_text(encoding="utf-8"))
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(TrainSweep\w+)`", page, re.MULTILINE))
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    assert {rule["alert"] for rule in found} == listed
    for rule in found:
        assert unknown(rule["expr"], names) == [], rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description"} <= set(rule["annotations"])
        for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
            assert label in rule["expr"] or label in str(names), (rule["alert"], label)
        for reason in re.findall(r'reason=~"([^"]+)"', rule["expr"]):
            assert set(reason.split("|")) <= {str(r) for r in Reason}
