"""A spec is resolved once for each text, however its fields are ordered."""

from __future__ import annotations

from tests.unit.core.core_builders import klass, spec
from trainsweep.core.resolved import resolved


def test_the_same_spec_in_another_order_is_resolved_once() -> None:
    turned = dict(reversed(spec().items()))
    assert list(turned) != list(spec())
    assert resolved(turned, None) is resolved(spec(), None)


def test_another_spec_or_class_is_resolved_anew() -> None:
    found = resolved(spec(), None)
    assert resolved(spec(trials={"count": 5}), None).trials.count == 5
    assert resolved(spec(), klass(defaults={"budget": {"cpuHours": 7}}).spec).budget.cpu_hours == 7
    assert (found.trials.count, found.budget.cpu_hours) == (4, None)
