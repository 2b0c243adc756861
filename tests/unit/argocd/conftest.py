"""The chart's fixtures: the examples hold values of it."""

from __future__ import annotations

from tests.unit.chart.conftest import helm_run, template

__all__ = ["helm_run", "template"]
