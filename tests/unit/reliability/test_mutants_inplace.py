"""Code that is put into functions that live, and which lines belong to which function."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.inplace import Tracer, function_at, living, put_in_place

SOURCE = """\
LIMIT = 3


def within(n):
    def below(limit):
        return n < limit

    return below(LIMIT)


class Counter:
    @property
    def full(self):
        return within(2)
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "counted.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("counted", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    yield found
    sys.modules.pop("counted", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [("n < limit", "n > limit"), ("return below(LIMIT)", "return not below(LIMIT)")],
    ids=["inner", "outer"],
)
def test_whoever_holds_the_function_runs_the_new_code(module: ModuleType, old: str, new: str) -> None:
    held, counter, path = module.within, module.Counter(), str(module.__file__)
    functions = living({path})
    assert (held(2), counter.full) == (True, True)
    Path(path).write_text(SOURCE.replace(old, new))
    put_in_place(path, functions)
    assert (held(2), counter.full) == (False, False)


def test_what_is_of_no_function_is_told() -> None:
    assert function_at(SOURCE, 1, 1) is None  # a constant
    assert function_at(SOURCE, 4, 4) is None  # a signature: its defaults are evaluated at import
    assert function_at(SOURCE, 6, 6) == (6, 6)
    assert function_at(SOURCE, 8, 8) == (5, 8)


def test_the_lines_that_a_call_runs(module: ModuleType) -> None:
    path = str(module.__file__)
    with Tracer({path}) as tracer:
        module.Counter().full  # noqa: B018  # a property
    assert {line for _, line in tracer.seen} == {5, 6, 8, 14}
