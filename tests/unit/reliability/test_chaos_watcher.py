"""What counts as a recovery in the table of `make chaos`."""

import pytest

from tests.chaos.watcher import Sample, Watcher

AT = 100.0


def _watcher(*looks: tuple[float, int, int, bool]) -> Watcher:
    """(seconds from the fault, attempt, commits, finished) a look."""
    found = Watcher(lab=None, name="x")  # type: ignore[arg-type]  # nothing is looked at
    found.samples = [Sample(AT + at, attempt, commits, 1, 1, over) for at, attempt, commits, over in looks]
    return found


@pytest.mark.parametrize(
    ("looks", "seconds"),
    [
        pytest.param([(-1, 1, 3, False), (2, 1, 3, False), (5, 1, 4, False)], 5, id="the next commit"),
        pytest.param(
            [(-1, 1, 3, False), (2, 1, 4, False), (5, 2, 4, False), (9, 2, 5, False)], 9, id="not a dying pod's"
        ),
        pytest.param([(-1, 1, 3, False), (4, 1, 3, True)], 4, id="the end of the sweep"),
        pytest.param([(-1, 1, 3, False), (4, 1, 3, False)], None, id="never"),
        pytest.param([(-1, 1, 2, False), (2, 1, 3, False), (6, 1, 4, False)], 6, id="not one from before the fault"),
    ],
)
def test_seconds_to_recovery(looks: list[tuple[float, int, int, bool]], seconds: float | None) -> None:
    assert _watcher(*looks).recovered_after(AT, known=3) == seconds


def test_gpu_seconds_are_of_the_span_alone() -> None:
    assert (
        _watcher((-5, 1, 0, False), (0, 1, 0, False), (4, 1, 0, False), (9, 1, 0, False)).gpu_seconds(AT, AT + 5) == 4
    )
