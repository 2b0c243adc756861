"""What core/ is given and gives back cannot be changed on the way: decide() may be called again with the same."""

import dataclasses
import importlib
import pkgutil

import pytest

import trainsweep.core

MODULES = [m.name for m in pkgutil.walk_packages(trainsweep.core.__path__, "trainsweep.core.")]
CLASSES = sorted(
    (
        found
        for name in MODULES
        for found in vars(importlib.import_module(name)).values()
        if isinstance(found, type) and dataclasses.is_dataclass(found) and found.__module__ == name
    ),
    key=lambda found: (found.__module__, found.__name__),
)
SAID: dict[str, dict[str, object]] = {}
"""Defaults that are something, by class."""


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_it_is_frozen(found: type) -> None:
    assert found.__dataclass_params__.frozen


def test_what_goes_in_and_comes_out_is_among_them() -> None:
    assert {"Observed", "Plan", "Settlement", "WriteStatus"} <= {found.__name__ for found in CLASSES}


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_what_is_not_said_is_nothing(found: type) -> None:
    """A default never claims anything: no proof, no object, no time, no flag. `None` of a kind is of those that may lack."""
    defaults = {f.name: f.default for f in dataclasses.fields(found) if f.default is not dataclasses.MISSING}
    said = {name: value for name, value in defaults.items() if value not in (None, "", 0, False, ())}
    assert said == SAID.get(found.__name__, {})
