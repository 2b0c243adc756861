"""The fixed mutants fit the code as it is now; `make mutants` puts them in and hunts them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.mutants.fixed import MUTANTS, Mutant
from tests.mutants.random_part import known
from tests.mutants.run import DoesNotApply, patched

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_mutant_applies_once_and_is_python(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    changed = patched(mutant, text)
    assert changed != text
    compile(changed, mutant.file, "exec")


def test_mutant_that_does_not_apply_is_no_mutant() -> None:
    with pytest.raises(DoesNotApply, match="does not apply"):
        patched(MUTANTS[0], "nothing of it")


@pytest.mark.parametrize("entry", known(), ids=lambda e: e["was"])
def test_a_reason_is_of_a_line_that_is_there(entry: dict[str, str]) -> None:
    assert set(entry) <= {"module", "was", "became", "reason"}
    assert len(entry["reason"]) > 20
    lines = (ROOT / "operator" / "trainsweep" / entry["module"]).read_text().splitlines()
    assert any(re.search(entry["was"], line.strip()) for line in lines)
