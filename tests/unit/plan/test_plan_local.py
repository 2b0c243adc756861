"""A sweep on one machine: what fits, what is told, what is refused before anything starts."""

import pytest

from tests.unit.render.render_builders import raw
from trainsweep.api.resolve import resolve
from trainsweep.plan.local import Machine, local_plan

GIB = 2**30


def spec(concurrent=4, count=1, **resources):
    made = raw()
    made["trials"] = {**made["trials"], "count": 8, "maxConcurrent": concurrent}
    made["training"] = {**made["training"], "workers": {"count": count, "resources": resources or {"cpu": 1}}}
    return resolve(made, None)


@pytest.mark.parametrize(
    ("cpus", "memory", "concurrent", "count", "resources", "at_once"),
    [
        (8, 64, 4, 1, {"cpu": 1}, 4),
        (2, 64, 4, 1, {"cpu": 1}, 2),
        (5, 64, 4, 2, {"cpu": 1}, 2),
        (8, 64, 4, 2, {"cpu": 4}, 1),
        (8, 7, 4, 1, {"cpu": 1}, 3),  # 3 GB and 1.3 GB a trial
        (8, 12, 4, 1, {"cpu": 1, "memory": "4Gi"}, 1),
        (8, 0, 4, 1, {"cpu": 1}, 4),  # a system that does not say how much is free
    ],
)
def test_trials_at_a_time(cpus, memory, concurrent, count, resources, at_once):
    found = local_plan(spec(concurrent, count, **resources), Machine(cpus, memory * GIB))
    assert found.refusals == ()
    assert found.max_concurrent == at_once
    assert bool(found.notes) == (at_once < concurrent)


@pytest.mark.parametrize(
    ("count", "resources", "path"),
    [
        (3, {"cpu": 1}, "spec.training.workers"),
        (1, {"cpu": 3}, "spec.training.workers"),
        (2, {"cpu": 1, "memory": "9Gi"}, "spec.training.workers.resources.memory"),
    ],
)
def test_what_can_never_fit_is_refused_with_its_field(count, resources, path):
    found = local_plan(spec(1, count, **resources), Machine(2, 16 * GIB))
    assert [r.path for r in found.refusals] == [path]
    assert "lower count" in found.refusals[0].message


def test_little_memory_is_told_not_refused():
    found = local_plan(spec(1), Machine(4, 2 * GIB))
    assert (found.refusals, found.max_concurrent) == ((), 1)
    assert "it may get tight" in found.notes[0]
