"""The fence: one driver an attempt, and an older attempt sees a newer one."""

import pytest

from tests.unit.trainjobs.builders import Place, sweep
from trainjobs import fence
from trainjobs.outcome import DriverError
from trainjobs.store import Entry
from trainsweep.contract.documents import FailureReason, Start


def starts(*items):
    return {name: Entry(f"attempts/{name}/start.json", 1, at) for name, at in items}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (starts(("1-0a1b2c3d", 1)), None),
        (starts(("1-0a1b2c3d", 5), ("2-0a1b2c3d", 4)), "2-0a1b2c3d"),  # the number counts, not the clock
        (starts(("1-0a1b2c3d", 5), ("10-0a1b2c3d", 4)), "10-0a1b2c3d"),
        (starts(("1-0a1b2c3d", 5), ("1-ffffffff", 6)), "1-ffffffff"),  # created again later
        (starts(("1-0a1b2c3d", 5), ("9-ffffffff", 4)), None),  # the one before the re-creation
        (starts(("1-0a1b2c3d", 5), ("stranger", 6), ("0007-0a1b2c3d", 6)), None),
    ],
)
def test_which_attempt_is_newer(found, expected):
    assert fence.newer_attempt(found, "1-0a1b2c3d") == expected


def test_an_older_attempt_may_neither_enter_nor_go_on(tmp_path):
    place = Place(tmp_path)
    fence.enter(place.store, sweep(attempt=1))
    fence.enter(place.store, sweep(attempt=2))
    with pytest.raises(DriverError, match="attempt 2-0a1b2c3d has started") as error:
        fence.check(place.store, "1-0a1b2c3d")
    assert error.value.reason is FailureReason.FENCED
    fence.check(place.store, "2-0a1b2c3d")
    with pytest.raises(DriverError):
        fence.enter(place.store, sweep(attempt=1))


def test_a_second_driver_of_one_attempt_is_refused(tmp_path):
    place = Place(tmp_path)
    start = fence.enter(place.store, place.sweep)
    with pytest.raises(DriverError, match="another driver of it has begun"):
        fence.enter(place.store, place.sweep)
    written = Start.model_validate_json((tmp_path / "attempts" / "1-0a1b2c3d" / "start.json").read_bytes())
    assert written == start
    assert written.versions["ray"]
