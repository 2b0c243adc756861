"""Runs every layer of the tests, prints the table of times, and fails when a layer did not run or the budget is exceeded.

`make test` and `.ci/run` call this and nothing else. Layers are run in order of cost; the first failing layer does not
stop the later ones, so that one run tells all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET_MINUTES = 40.0
COLD_BUDGET_MINUTES = 75.0


@dataclass(frozen=True)
class Layer:
    """One layer: how it is run, and its share of the budget in minutes (printed, not enforced one by one)."""

    name: str
    command: list[str]
    minutes: float
    tests: bool = True


@dataclass
class Outcome:
    """What a layer did."""

    layer: Layer
    seconds: float
    code: int
    passed: int = 0
    failed: int = 0
    skipped: list[str] | None = None


def layers() -> list[Layer]:
    """The layers, cheapest first."""

    def pytest(*paths: str) -> list[str]:
        return [sys.executable, "-m", "pytest", "-q", "--durations=5", *paths]

    return [
        # On a new machine this builds Kubernetes, KubeRay and the rest, once; afterwards it looks whether they are there.
        Layer("build", [sys.executable, "-m", "devcluster", "build"], 0, tests=False),
        Layer("lint", ["make", "--no-print-directory", "lint"], 2, tests=False),
        Layer("unit", pytest("-n", "auto", "tests/unit"), 2),
        Layer("simulation", pytest("-n", "auto", "tests/simulation"), 3),
        # In headless Chromium: Debian's package, which this layer installs where it is missing.
        Layer("browser", pytest("tests/browser"), 1),
        # Apart, so that the look at what a cluster leaves behind sees nobody else's processes.
        Layer("devcluster", pytest("tests/integration/test_devcluster.py"), 1),
        Layer("api", pytest("tests/integration/api", "tests/integration/store"), 1),
        Layer("operator", pytest("tests/integration/operator"), 4),
        # Two at a time: half of a trial's time is waiting. Each process has a Ray of its own.
        Layer("local", pytest("-n", "2", "--dist", "loadfile", "tests/local"), 6),
        Layer("e2e", pytest("tests/e2e"), 22),
    ]


def run(layer: Layer) -> Outcome:
    """Runs one layer and counts its tests."""
    print(f"\n=== {layer.name} ===", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [*layer.command, f"--junitxml={report}"] if layer.tests else layer.command
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        outcome = Outcome(layer, time.monotonic() - started, code, skipped=[])
        if layer.tests and report.exists():
            for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314  # our own file
                skip = case.find("skipped")
                if skip is not None:
                    outcome.skipped.append(f"{case.get('name')}: {skip.get('message')}")
                elif case.find("failure") is not None or case.find("error") is not None:
                    outcome.failed += 1
                else:
                    outcome.passed += 1
    return outcome


def main() -> int:
    """Runs the layers asked for (all by default)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", nargs="*", help="only these layers")
    wanted = parser.parse_args().layers
    os.environ.setdefault("PYTHONPATH", "operator:.")
    chosen = [layer for layer in layers() if not wanted or layer.name in wanted]
    began = time.monotonic()
    outcomes = [run(layer) for layer in chosen]
    minutes = (time.monotonic() - began) / 60
    print("\nlayer         passed  failed  skipped  seconds  budget")
    bad = []
    for one in outcomes:
        skipped = len(one.skipped or [])
        counts = f"{one.passed:>6}  {one.failed:>6}  {skipped:>7}"
        print(f"{one.layer.name:<12}  {counts}  {one.seconds:>7.0f}  {one.layer.minutes:>4.0f} min")
        if one.code != 0:
            bad.append(f"{one.layer.name} failed (exit {one.code})")
        if one.layer.tests and one.code == 0 and one.passed == 0:
            bad.append(f"{one.layer.name} ran no test")
        for reason in one.skipped or []:
            bad.append(f"{one.layer.name} skipped {reason}")
    # A CI machine may be new: it builds Kubernetes, KubeRay and the images first.
    budget = COLD_BUDGET_MINUTES if os.environ.get("CI") else BUDGET_MINUTES
    print(f"all in {minutes:.1f} of {budget:.0f} minutes")
    if minutes > budget:
        bad.append(f"over the budget of {budget:.0f} minutes")
    for line in bad:
        print(f"FAILED: {line}")
    failed = sum(o.failed for o in outcomes)
    print(f"{sum(o.passed for o in outcomes)} passed, {max(failed, 1 if bad else 0)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
