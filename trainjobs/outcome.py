"""How an attempt ends: one table from outcome to exit code, and the failures that carry a reason of the contract.

| outcome | exit | RayJob |
|---|---|---|
| Completed, GoalReached; verified, nothing required, no verdict in time, or `onMissing: Warn` | 0 | SUCCEEDED |
| MaxFailedTrials, DeadlineExceeded, BudgetExceeded | 1 | FAILED; the best so far is kept and verified |
| Failed, a new attempt may help | 1 | FAILED |
| wrong command line | 2 | FAILED |
| Failed, a new attempt cannot help (bad entrypoint, denied store, invalid sweep, incompatible) | 3 | FAILED |
| Failed, a newer attempt has started | 4 | FAILED |
| Stopped: as asked, state saved | 5 | FAILED, or STOPPED where Ray asked |
| Completed or GoalReached, owed checkpoints missing and not mended | 6 | FAILED |

A stop and a passed deadline are no success, so their exit is not 0: KubeRay knows nothing between SUCCEEDED and FAILED.
What it was stands in `end.json` and, where the store cannot be written, in the last line on standard error.
"""

from __future__ import annotations

from trainsweep.contract.documents import (
    EXIT_FAILED,
    EXIT_FENCED,
    EXIT_NOT_VERIFIED,
    EXIT_OK,
    EXIT_PERMANENT,
    EXIT_STOPPED,
    FailureReason,
    Outcome,
)

PERMANENT = frozenset(
    {
        FailureReason.BAD_ENTRYPOINT,
        FailureReason.STORAGE_DENIED,
        FailureReason.INVALID_SWEEP,
        FailureReason.INCOMPATIBLE,
    }
)
"""Failures that a new attempt would only repeat."""

GOOD = frozenset({Outcome.COMPLETED, Outcome.GOAL_REACHED})


class DriverError(Exception):
    """The driver cannot go on: `reason` for the operator, the message for a person."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(reason, message)  # both: it travels pickled between Ray's processes

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


def exit_code(outcome: Outcome, reason: str = "", *, lost: bool = False) -> int:
    """The exit code of an attempt.

    Args:
        outcome: how it ended.
        reason: a `FailureReason` where the outcome is Failed.
        lost: whether owed checkpoints are missing for good and the sweep does not tolerate it.
    """
    if outcome is Outcome.FAILED:
        if reason == FailureReason.FENCED:
            return EXIT_FENCED
        return EXIT_PERMANENT if reason in PERMANENT else EXIT_FAILED
    if outcome is Outcome.STOPPED:
        return EXIT_STOPPED
    if outcome in GOOD:
        return EXIT_NOT_VERIFIED if lost else EXIT_OK
    return EXIT_FAILED
