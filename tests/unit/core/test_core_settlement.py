"""What is known of trials from their records: counts, the best report, and the differences between two lists of the owed."""

from __future__ import annotations

from typing import Any

import pytest

from trainsweep.contract.documents import Checksum, FileEntry, Owed, Receipt, SweepRef, TrialRecord
from trainsweep.contract.owed import Committed, OwedCheckpoint, TrialState
from trainsweep.core.settlement import (
    best_report,
    counts,
    owed_difference,
    receipt_problem,
    stored_checksum_agrees,
    trial_states,
)


def record(index: int, state: str, **more: Any) -> TrialRecord:
    """One line of trials.jsonl."""
    return TrialRecord.model_validate(
        {
            "index": index,
            "trial": f"t{index}-0123456789",
            "state": state,
            "parameters": {"lr": index / 10},
            "configHash": "0123456789",
            **more,
        }
    )


RECORDS = [
    record(0, "Succeeded"),
    record(1, "EarlyStopped"),
    record(2, "Failed"),
    record(3, "Running"),
    record(4, "Proposed"),
]


def test_what_was_never_proposed_is_pending() -> None:
    found = counts(RECORDS, 9)
    assert (found.succeeded, found.early_stopped, found.failed, found.running) == (1, 1, 1, 1)
    assert (found.pending, found.expected) == (9 - 4, 9)


def test_more_trials_than_were_asked_for_leave_none_pending() -> None:
    assert counts(RECORDS, 2).pending == 0


def states(*values: tuple[float | None, ...]) -> list[TrialState]:
    """A trial for each tuple, with a checkpoint for each of its values."""
    return [
        TrialState(
            f"t{number}-0123456789",
            "Succeeded",
            tuple(Committed(f"train/t{number}/checkpoint_{step:06d}", step, value) for step, value in enumerate(one)),
        )
        for number, one in enumerate(values)
    ]


@pytest.mark.parametrize(("mode", "trial", "value", "step"), [("Minimize", 2, 0.1, 1), ("Maximize", 1, 0.9, 0)])
def test_the_best_report_of_all_trials(mode: str, trial: int, value: float, step: int) -> None:
    best = best_report(RECORDS, states((None,), (0.9, 0.5), (0.4, 0.1)), mode)
    assert best is not None
    assert (best.trial, best.value, best.step) == (f"t{trial}-0123456789", value, step)
    assert best.checkpoint == f"train/t{trial}/checkpoint_{step:06d}"
    assert best.parameters == {"lr": trial / 10}


def test_no_value_no_best() -> None:
    assert best_report(RECORDS, states((None,), ()), "Minimize") is None


def test_a_trial_without_commits_is_known_too() -> None:
    found = trial_states(RECORDS[:2], {"t1-0123456789": (Committed("c", 1, 0.5),)})
    assert [(s.trial, s.state, len(s.checkpoints)) for s in found] == [
        ("t0-0123456789", "Succeeded", 0),
        ("t1-0123456789", "EarlyStopped", 1),
    ]


def owed(number: int, **changes: Any) -> Owed:
    """One entry of a receipt."""
    fields: dict[str, Any] = {
        "trial": f"t{number}",
        "checkpoint": f"train/t{number}/c",
        "step": 3,
        "value": 0.5,
        "files": [],
    }
    return Owed.model_construct(**(fields | changes))


def derived(number: int) -> OwedCheckpoint:
    """The same, as the snapshots say."""
    return OwedCheckpoint(trial=f"t{number}", checkpoint=f"train/t{number}/c", step=3, value=0.5)


@pytest.mark.parametrize(
    ("claimed", "said"),
    [
        pytest.param([owed(0), owed(1)], "", id="equal"),
        pytest.param([owed(0)], "leaves out train/t1/c", id="one too few"),
        pytest.param([owed(0), owed(1), owed(2)], "owes train/t2/c, which is not owed", id="one too many"),
        pytest.param([owed(0), owed(1), owed(1)], "twice", id="twice"),
        pytest.param([owed(0), owed(1, step=4)], "step 4", id="another step"),
        pytest.param([owed(0), owed(1, value=0.6)], "value 0.6", id="another value"),
        pytest.param([owed(0), owed(1, trial="t9")], "trial t9", id="another trial"),
    ],
)
def test_a_receipt_must_owe_what_is_owed(claimed: list[Owed], said: str) -> None:
    found = owed_difference(claimed, [derived(1), derived(0)])
    assert said in found
    assert bool(said) == bool(found)


OTHER = "v1-fedcba9876543210"


@pytest.mark.parametrize(
    "field", ["sweep.namespace", "sweep.name", "sweep.uid", "sweep.run", "attemptId", "metric", "mode"]
)
def test_a_receipt_of_something_else_is_named_by_its_field(field: str) -> None:
    mine = {"namespace": "team", "name": "digits", "uid": "u", "run": "v1-0123456789abcdef"}
    rest = {"attemptId": "1-0b0e6c1e", "metric": "loss", "mode": "Minimize"}
    said, about = dict(mine), dict(rest)
    if field.startswith("sweep."):
        said[field.removeprefix("sweep.")] = OTHER
    else:
        about[field] = OTHER
    fields: dict[str, Any] = {"attempt_id": about["attemptId"], "metric": about["metric"], "mode": about["mode"]}
    receipt = Receipt.model_construct(sweep=SweepRef(**said), **fields)
    sweep = SweepRef(**mine)
    assert f"the receipt's {field} is {OTHER!r}" in receipt_problem(receipt, sweep, "1-0b0e6c1e", "loss", "Minimize")
    same = receipt.model_copy(update={"sweep": sweep, "attempt_id": "1-0b0e6c1e", "metric": "loss", "mode": "Minimize"})
    assert receipt_problem(same, sweep, "1-0b0e6c1e", "loss", "Minimize") == ""


@pytest.mark.parametrize(
    ("stored", "agrees"),
    [({"CRC32": "a", "SHA256": "b"}, True), ({"SHA256": "x"}, False), ({"CRC64NVME": "z"}, None), ({}, None)],
)
def test_only_checksums_of_the_same_algorithm_are_compared(stored: dict[str, str], agrees: bool | None) -> None:
    def sums(values: dict[str, str]) -> list[Checksum]:
        return [Checksum.model_construct(algorithm=k, value=v) for k, v in values.items()]

    entry = FileEntry.model_construct(path="f", size=1, checksums=sums({"CRC32": "a", "SHA256": "b"}))
    assert stored_checksum_agrees(entry, sums(stored)) is agrees
