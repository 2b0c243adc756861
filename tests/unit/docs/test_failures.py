"""The table of ends in docs/concepts/failures.md is that of the rules."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.unit.chart.conftest import ROOT
from trainsweep.core.ends import RULES, EndClass

PAGE = (ROOT / "docs/concepts/failures.md").read_text(encoding="utf-8")


def test_the_table_is_generated_from_the_rules():
    environment = {**os.environ, "PYTHONPATH": "operator:."}
    done = subprocess.run(
        [sys.executable, ".ci/failures.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert PAGE.count("\n| ") >= len(RULES)


def test_every_class_is_explained():
    for end_class in EndClass:
        if end_class is not EndClass.SUCCESS:
            assert f"`{end_class}`" in PAGE, end_class
