"""The second look's arithmetic: what must be there, against what was seen. Reading is done elsewhere.

A receipt is a claim: it must be bound to this very sweep and attempt, owe what the snapshots say is owed, and every
file that it names must be in the store as it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainsweep.contract.documents import (
    Best,
    Checksum,
    FileEntry,
    MissingFile,
    Owed,
    Receipt,
    SweepRef,
    TrialCounts,
    TrialRecord,
)
from trainsweep.contract.owed import Committed, OwedCheckpoint, TrialState, best_of, better


def receipt_problem(receipt: Receipt, sweep: SweepRef, attempt_id: str, metric: str, mode: str) -> str:
    """Why a receipt is not one of this attempt of this sweep; "" where it is."""
    claims = (
        ("sweep.namespace", receipt.sweep.namespace, sweep.namespace),
        ("sweep.name", receipt.sweep.name, sweep.name),
        ("sweep.uid", receipt.sweep.uid, sweep.uid),
        ("sweep.run", receipt.sweep.run, sweep.run),
        ("attemptId", receipt.attempt_id, attempt_id),
        ("metric", receipt.metric, metric),
        ("mode", receipt.mode, mode),
    )
    for field, said, wanted in claims:
        if said != wanted:
            return f"the receipt's {field} is {said!r}, not {wanted!r}: it is no receipt of this attempt"
    return ""


def trial_states(records: Iterable[TrialRecord], committed: Mapping[str, Sequence[Committed]]) -> list[TrialState]:
    """Every known trial with what is committed of it. `committed` is keyed by trial."""
    return [TrialState(r.trial, r.state, tuple(committed.get(r.trial, ()))) for r in records]


def owed_difference(claimed: Sequence[Owed], derived: Sequence[OwedCheckpoint]) -> str:
    """The first difference between what the receipt owes and what the snapshots say is owed; "" where there is none."""
    wanted = {o.checkpoint: o for o in derived}
    said = {o.checkpoint: o for o in claimed}
    for key, owed in sorted(wanted.items()):
        claim = said.get(key)
        if claim is None:
            return f"the receipt leaves out {key} of trial {owed.trial}, which is owed"
        if claim.trial != owed.trial or claim.step != owed.step or claim.value != owed.value:
            return (
                f"the receipt says trial {claim.trial}, step {claim.step}, value {claim.value} of {key}; "
                f"committed is trial {owed.trial}, step {owed.step}, value {owed.value}"
            )
    for key in sorted(said.keys() - wanted.keys()):
        return f"the receipt owes {key}, which is not owed"
    if len(said) != len(claimed):
        return "the receipt names a checkpoint twice"
    return ""


def missing_files(owed: Owed, sizes: Mapping[str, int], *, compare_sizes: bool) -> list[MissingFile]:
    """Files of an owed checkpoint that a listing does not show as the receipt says.

    Args:
        owed: the checkpoint with its files.
        sizes: size by key relative to the run, as listed.
        compare_sizes: whether sizes must be equal too.
    """
    found = []
    for entry in owed.files:
        size = sizes.get(f"{owed.checkpoint}/{entry.path}")
        if size is None:
            found.append(missing(owed.trial, owed.checkpoint, entry.path, "Absent"))
        elif compare_sizes and size != entry.size:
            found.append(missing(owed.trial, owed.checkpoint, entry.path, "WrongSize"))
    return found


def missing(trial: str, checkpoint: str, file: str, problem: str) -> MissingFile:
    """One owed file that is not as it should be."""
    return MissingFile.model_validate({"trial": trial, "checkpoint": checkpoint, "file": file, "problem": problem})


def stored_checksum_agrees(entry: FileEntry, stored: Iterable[Checksum]) -> bool | None:
    """Whether a checksum that the store keeps equals the receipt's of the same algorithm; None where none is common."""
    claimed = {c.algorithm: c.value for c in entry.checksums}
    common = [(claimed[c.algorithm], c.value) for c in stored if c.algorithm in claimed]
    return all(a == b for a, b in common) if common else None


def counts(records: Sequence[TrialRecord], expected: int) -> TrialCounts:
    """Trials by state; what was never proposed is pending."""
    by_state: list[str] = [r.state for r in records]
    done = {name: by_state.count(state) for name, state in
            (("succeeded", "Succeeded"), ("early_stopped", "EarlyStopped"), ("failed", "Failed"))}  # fmt: skip
    running = by_state.count("Running")
    return TrialCounts(
        expected=expected, running=running, pending=max(0, expected - running - sum(done.values())), **done
    )


def best_report(records: Sequence[TrialRecord], states: Sequence[TrialState], mode: str) -> Best | None:
    """The best committed report over all trials; None where none has a value."""
    by_trial = {r.trial: r for r in records}
    winner: tuple[TrialState, Committed, float] | None = None
    for state in sorted(states, key=lambda s: s.trial):
        item = best_of(state.checkpoints, mode)
        if item is None or item.value is None:
            continue
        if winner is None or better(item.value, winner[2], mode):
            winner = (state, item, item.value)
    if winner is None:
        return None
    state, item, value = winner
    record = by_trial.get(state.trial)
    return Best(
        trial=state.trial,
        value=value,
        step=item.step,
        parameters=record.parameters if record else {},
        checkpoint=item.checkpoint,
    )
