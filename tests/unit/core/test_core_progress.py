"""What the driver reported, as the status holds it: cut to its fields, without times that are none, of our own trials."""

from __future__ import annotations

import pytest

from tests.unit.core.core_builders import Stage, progress
from trainsweep.api.status import TrialsStatus
from trainsweep.contract.documents import Best, Phase, TrialCounts
from trainsweep.core.draft import Draft
from trainsweep.core.progress import record_best, record_progress, record_trials


def draft() -> Draft:
    """A pass over a sweep that runs."""
    stage = Stage().running()
    return Draft(stage.observed(), stage.now)


@pytest.mark.parametrize(("ours", "said"), [(4, "3/4"), (0, "3/99")])
def test_how_many_trials_are_expected_says_the_spec_and_the_driver_only_where_it_was_not_recorded(
    ours: int, said: str
) -> None:
    found = draft()
    found.set(trials=TrialsStatus(expected=ours))
    record_trials(found, TrialCounts(expected=99, succeeded=1, early_stopped=1, failed=1, running=1))
    assert found.status.trials.summary == said
    assert found.status.trials.expected == int(said.split("/")[1])


def test_the_best_is_cut_to_what_its_fields_may_hold() -> None:
    found = draft()
    found.set(run_uri="s3://bucket/" + "p" * 2000)
    parameters = {f"{i:02d}{'n' * 70}": "v" * 300 for i in range(64)}
    record_best(found, Best(trial="t0", value=0.5, step=3, parameters=parameters, checkpoint="train/" + "c" * 200))
    best = found.status.best
    assert best is not None
    assert best.parameters == {f"{i:02d}{'n' * 61}": "v" * 256 for i in range(64)}
    assert len(best.checkpoint_uri) == 2048


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (-1.0, None),
        (0.0, "1970-01-01T00:00:00Z"),
        (2.0**33 - 1, "2242-03-16T12:56:31Z"),
        (2.0**33, None),
    ],
)
def test_times_before_1970_or_of_another_age_are_left_out(at: float, said: str | None) -> None:
    found = draft()
    record_progress(found, progress("1-0b0e6c1e", Phase.RUNNING, at))
    assert found.status.progress.heartbeat_at == said
    assert found.status.attempts[-1].first_report_at == said
