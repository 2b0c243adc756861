"""A sweep that is created again over a finished run: nothing is trained, and the receipt says why."""

import pytest

pytest.importorskip("ray")  # an extra; CI has it and fails on a skip

from tests.unit.trainjobs.builders import UID, Place
from trainjobs.driver import Driver
from trainjobs.logs import Tail
from trainsweep.contract.documents import ADOPTED, Outcome

OLDER = "ffffffff-0000-4000-8000-000000000001"


def driver_over(tmp_path, uid, states=("Succeeded", "Succeeded", "EarlyStopped", "Failed"), **changes):
    """A driver of the sweep as it is now, over what a sweep with this uid has left."""
    left = Place(tmp_path, uid=uid, **changes)
    for index, state in enumerate(states):
        left.trial(index, [0.5 - index / 10], state=state)
    left.records.flush()
    now = Place(tmp_path, **changes)
    now.records.load()
    made = Driver(now.sweep, None, Tail())
    made._records, made._store = now.records, now.store
    made._round = lambda *_: pytest.fail("it trained")
    return made


def test_a_run_that_another_sweep_finished_is_adopted(tmp_path):
    outcome, reason, _ = driver_over(tmp_path, OLDER)._train()
    assert (outcome, reason) == (Outcome.COMPLETED, ADOPTED)


def test_so_is_one_that_reached_its_goal_before_all_had_run(tmp_path):
    made = driver_over(tmp_path, OLDER, ("Succeeded", "Running"), objective=GOAL)
    outcome, reason, _ = made._train()
    assert (outcome, reason) == (Outcome.GOAL_REACHED, ADOPTED)


def test_the_next_attempt_of_the_same_sweep_adopts_nothing(tmp_path):
    outcome, reason, _ = driver_over(tmp_path, UID)._train()
    assert (outcome, reason) == (Outcome.COMPLETED, "")


def test_a_run_without_a_good_trial_is_none_to_adopt(tmp_path):
    outcome, reason, _ = driver_over(tmp_path, OLDER, ("Failed",) * 4)._train()
    assert outcome is Outcome.FAILED
    assert reason != ADOPTED


GOAL = {"metric": "loss", "mode": "Minimize", "goal": 0.45}
