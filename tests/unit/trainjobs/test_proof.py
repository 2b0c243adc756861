"""Proof without Ray: verdicts, mending and its limits, with the training played by a function."""

import threading
import time
from types import SimpleNamespace

import pytest

from tests.unit.trainjobs.builders import Place
from trainjobs import proof
from trainjobs.pulse import Stop
from trainsweep.contract.documents import MissingFile, Outcome, Verdict


class Operator:
    """Stands for the pulse, and answers each receipt with the next of its verdicts."""

    def __init__(self, verdicts):
        self.verdicts = list(verdicts)
        self.phases, self.verdict, self.best, self.stop, self.fenced = [], None, None, None, None
        self._digest = None

    @property
    def receipt_digest(self):
        return self._digest

    @receipt_digest.setter
    def receipt_digest(self, digest):
        self._digest = digest
        if digest is not None and self.verdicts:
            result, missing = self.verdicts.pop(0)
            self.verdict = Verdict(receipt_digest=digest, result=result, missing=missing)

    def enter(self, phase, message=""):
        self.phases.append(phase.value)


def missing(run, name="checkpoint_2", trial="t0000"):
    return MissingFile(trial=trial, checkpoint=f"{run}/{name}", file="state.bin", problem="Absent")


def prove(place, operator, round_=None):
    made = proof.Proof(place.sweep, place.store, place.records, operator, round_ or (lambda *a: pytest.fail("trained")))
    return made, made.run(Outcome.COMPLETED, "", "")


def place_of(tmp_path, retries=1, **changes):
    verify = {"verify": {"timeoutSeconds": 10}}
    return Place(tmp_path, failurePolicy={"trialRetries": retries}, checkpoints={**verify, **changes})


def test_persisted_is_the_end(tmp_path):
    place = place_of(tmp_path)
    place.trial(0, [0.5, 0.1])
    operator = Operator([("Persisted", [])])
    made, end = prove(place, operator)
    assert (made.verified, made.lost, end[0]) == (True, [], Outcome.COMPLETED)
    assert operator.phases == ["Settling", "WaitingForVerdict"]


def test_a_verdict_on_another_receipt_is_none(tmp_path, monkeypatch):
    place = place_of(tmp_path)
    place.trial(0, [0.5])
    operator = Operator([])
    operator.verdict = Verdict(receipt_digest="a" * 64, result="Persisted")
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(proof, "time", clock)
    made, end = prove(place, operator)
    assert now[0] >= 10
    assert (made.verified, made.lost, end[0]) == (False, [], Outcome.COMPLETED)


def trains(place, values):
    """A round of Tune that trains the trial again to these values."""
    rounds = []

    def run(name, indices, targets):
        rounds.append((name, indices, targets))
        (index,) = indices
        place.store.delete_tree(f"train/t0000-{place.records.get(index).config_hash}")
        place.trial(index, values)
        return Outcome.COMPLETED, "", ""

    return run, rounds


def test_what_is_missing_is_trained_again_and_proven(tmp_path):
    place = place_of(tmp_path)
    run = place.trial(0, [0.5, 0.1])
    place.store.delete([f"{run}/checkpoint_2/state.bin"])  # the driver's own look finds it first
    round_, rounds = trains(place, [0.5, 0.1])
    operator = Operator([("Persisted", [])])
    made, _ = prove(place, operator, round_)
    assert rounds == [("1-0a1b2c3d-mend-1", [0], {0: 2})]
    assert (made.verified, made.lost) == (True, [])
    assert operator.phases == ["Settling", "Mending", "Settling", "WaitingForVerdict"]


def test_mending_ends_with_the_retries(tmp_path):
    place = place_of(tmp_path, retries=2)
    run = place.trial(0, [0.5, 0.1])
    round_, rounds = trains(place, [0.5, 0.1])
    operator = Operator([("Missing", [missing(run)])] * 9)
    made, end = prove(place, operator, round_)
    assert len(rounds) == 2
    assert made.lost == [f"{run}/checkpoint_2/state.bin (Absent)"]
    assert made.lost[0] in end[2]
    assert not made.verified


@pytest.mark.parametrize(
    "answer",
    [
        lambda run: [],
        lambda run: [missing(run, trial="t9999")],
    ],
)
def test_a_missing_that_names_nothing_we_know_never_loops(tmp_path, answer):
    place = place_of(tmp_path, retries=0)
    run = place.trial(0, [0.5, 0.1])
    made, _ = prove(place, Operator([("Missing", answer(run))] * 9))
    assert made.lost
    assert not made.verified


def test_a_mended_trial_that_fails_is_lost_not_replaced(tmp_path):
    """Another trial has a checkpoint too, but a worse one: it must not pass for the best."""
    place = place_of(tmp_path)
    run = place.trial(0, [0.5, 0.1])
    place.trial(1, [0.9])

    def fails(name, indices, targets):
        place.records.update(0, state="Failed")
        return Outcome.COMPLETED, "", ""

    made, end = prove(place, Operator([("Missing", [missing(run)])]), fails)
    assert made.lost == [f"{run}/checkpoint_2/state.bin (Absent)"]
    assert "training it again failed" in end[2]


def test_a_stop_leaves_no_time_for_mending(tmp_path):
    place = place_of(tmp_path)
    run = place.trial(0, [0.5, 0.1])
    operator = Operator([("Missing", [missing(run)])])
    operator.stop = Stop(Outcome.DEADLINE_EXCEEDED, "DeadlineExceeded", 30, 0)
    made, _ = prove(place, operator)
    assert made.lost


def test_a_suspension_leaves_the_mending_to_the_next_attempt(tmp_path):
    place = place_of(tmp_path)
    run = place.trial(0, [0.5, 0.1])
    operator = Operator([("Missing", [missing(run)])])
    operator.stop = Stop(Outcome.STOPPED, "Suspended", 30, 0)
    made, (outcome, reason, message) = prove(place, operator)
    assert (made.lost, made.verified) == ([], False)
    assert (outcome, reason) == (Outcome.STOPPED, "Suspended")
    assert "checkpoint_2/state.bin" in message


def test_nothing_owed_asks_nobody(tmp_path):
    for require, verified in (("None", True), ("BestTrial", False)):
        place = place_of(tmp_path / require, require=require)
        operator = Operator([])
        made, _ = prove(place, operator)
        assert made.verified is verified
        assert "WaitingForVerdict" not in operator.phases
        assert (place.root / "receipt.json").exists()


def test_retention_comes_after_the_proof_and_spares_the_proven(tmp_path):
    place = place_of(tmp_path, retention={"keepTrials": 1})
    runs = [place.trial(i, [0.5 - 0.1 * i]) for i in range(3)]
    place.trial(3, [0.9], state="Failed")
    prove(place, Operator([("Persisted", [])]))
    assert [(tmp_path / r).exists() for r in runs] == [False, False, True]


def test_without_a_proof_nothing_is_retired(tmp_path):
    place = place_of(tmp_path, retries=0, retention={"keepTrials": 1})
    runs = [place.trial(i, [0.5 - 0.1 * i]) for i in range(2)]
    prove(place, Operator([("Missing", [missing(runs[1], "checkpoint_1", "t0001")])]))
    assert all((tmp_path / r).exists() for r in runs)


def test_a_newer_attempt_ends_the_wait(tmp_path):
    place = place_of(tmp_path)
    place.trial(0, [0.5])
    operator = Operator([])

    def fence():
        time.sleep(0.3)
        from trainjobs.outcome import DriverError
        from trainsweep.contract.documents import FailureReason

        operator.fenced = DriverError(FailureReason.FENCED, "attempt 2 has started")

    threading.Thread(target=fence, daemon=True).start()
    with pytest.raises(Exception, match="attempt 2 has started"):
        prove(place, operator)
