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


@pytest.mark.parametrize("found", CLASSES, ids=lambda found: found.__name__)
def test_it_is_frozen(found: type) -> None:
    assert found.__dataclass_params__.frozen


def test_what_goes_in_and_comes_out_is_among_them() -> None:
    assert {"Observed", "Plan", "Settlement", "WriteStatus"} <= {found.__name__ for found in CLASSES}
