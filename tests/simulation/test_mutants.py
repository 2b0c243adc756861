"""The fixed mutants fit the code as it is now; `make mutants` puts them in and hunts them."""

from __future__ import annotations

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


def test_survivors_have_reasons() -> None:
    assert all(known().values())
