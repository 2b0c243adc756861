"""The status stays at most 16 KiB, whatever users name and layers say: what is said elsewhere too is cut first."""

from __future__ import annotations

from collections.abc import Callable

from trainsweep.api.status import TrainSweepStatus

LIMIT = 16 * 1024
Cut = Callable[[TrainSweepStatus], TrainSweepStatus]


def size_of(status: TrainSweepStatus) -> int:
    """Bytes of the status as it is written."""
    return len(status.model_dump_json(by_alias=True, exclude_none=True).encode())


def bounded(status: TrainSweepStatus) -> TrainSweepStatus:
    """The status within its limit; unchanged where it fits. Of the same status always the same."""
    for cut in CUTS:
        if size_of(status) <= LIMIT:
            return status
        status = cut(status)
    return status


def short(text: str, limit: int) -> str:
    """A text of at most so many characters, which shows that it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."


def _earlier_attempts(limit: int) -> Cut:
    """Messages of all attempts but the newest, and digests that only the newest needs: the log has them in full."""

    def cut(status: TrainSweepStatus) -> TrainSweepStatus:
        last = len(status.attempts) - 1
        attempts = [
            a if i == last else a.model_copy(update={"message": short(a.message, limit), "spec_digest": ""})
            for i, a in enumerate(status.attempts)
        ]
        return status.model_copy(update={"attempts": attempts})

    return cut


def _parameters(limit: int) -> Cut:
    """Values of the best trial's parameters: trials.jsonl has them in full."""

    def cut(status: TrainSweepStatus) -> TrainSweepStatus:
        if status.best is None:
            return status
        values = {name: short(value, limit) for name, value in status.best.parameters.items()}
        return status.model_copy(update={"best": status.best.model_copy(update={"parameters": values})})

    return cut


def _missing(status: TrainSweepStatus) -> TrainSweepStatus:
    few = [short(text, 200) for text in status.checkpoints.missing[:4]]
    return status.model_copy(update={"checkpoints": status.checkpoints.model_copy(update={"missing": few})})


def _messages(limit: int) -> Cut:
    def cut(status: TrainSweepStatus) -> TrainSweepStatus:
        conditions = [c.model_copy(update={"message": short(c.message, limit)}) for c in status.conditions]
        attempts = [a.model_copy(update={"message": short(a.message, limit)}) for a in status.attempts]
        progress = status.progress.model_copy(update={"message": short(status.progress.message, limit)})
        pending = status.pending
        if pending is not None:
            pending = pending.model_copy(update={"message": short(pending.message, limit)})
        changes = {"conditions": conditions, "attempts": attempts, "progress": progress, "pending": pending}
        return status.model_copy(update=changes)

    return cut


def _best_and_older(status: TrainSweepStatus) -> TrainSweepStatus:
    """The last resort: no parameters, and only the newest attempts."""
    best = None if status.best is None else status.best.model_copy(update={"parameters": {}})
    return status.model_copy(update={"best": best, "attempts": status.attempts[-8:]})


CUTS: tuple[Cut, ...] = (
    _earlier_attempts(120),
    _parameters(64),
    _missing,
    _parameters(16),
    _messages(400),
    _best_and_older,
    _messages(120),
)
"""What is cut, in this order, until it fits."""
