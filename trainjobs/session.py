"""What a worker knows about its trial, and the question whether it should stop.

In a plain Ray Train worker, without a sweep, there is a session too: of no trial, and never told to stop.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

POLL_SECONDS = 0.5
PLAIN = "0000000000"
"""Configuration hash of checkpoints that no sweep made."""


@dataclass
class Session:
    """One worker's view of its trial, for the life of the loop."""

    trial: str
    config_hash: str
    metric: str = ""
    """Name of the objective."""
    worst: float = 0.0
    """A finite number that no objective is worse than."""
    epoch: int = 0
    """Finished epochs as last reported or loaded."""
    step: int = 0
    """Optimizer steps as last reported or loaded."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Metrics as last reported or loaded, averaged."""
    reports: int = 0
    """Reports of this loop, to see whether it reported at all."""
    stopped: bool = False
    """Whether the loop was told to stop."""
    calls: int = 0
    saved_at: float = field(default_factory=time.monotonic)
    """Monotonic time of the last checkpoint, or of the beginning."""
    board: Any = None
    asked: Any = None
    asked_at: float = 0.0


_current: Session | None = None


def begin(session: Session) -> None:
    """Makes a session the process's current one."""
    global _current
    _current = session


def current() -> Session:
    """The session of this worker.

    Raises:
        RuntimeError: outside of a training worker.
    """
    if _current is None:
        begin(Session(trial=_plain_run(), config_hash=PLAIN))
    assert _current is not None  # noqa: S101 - begin has just set it
    return _current


def _plain_run() -> str:
    """Name of the Ray Train run that this process works for."""
    train = sys.modules.get("ray.train")
    try:
        if train is not None:
            return str(train.get_context().get_experiment_name())
    except RuntimeError:  # Ray's own answer outside of a worker
        pass
    raise RuntimeError(
        "this works only inside a training loop that a sweep or Ray Train runs: use `trainsweep run FILE --local`, "
        "or give the loop its state by hand in a test"
    )


def flag(session: Session) -> bool:
    """The stop flag as far as it is known here; never waits."""
    import ray

    if session.board is None:
        return False
    if session.asked is None:
        if time.monotonic() - session.asked_at < POLL_SECONDS:
            return False
        session.asked, session.asked_at = session.board.stop_requested.remote(), time.monotonic()
    ready, _ = ray.wait([session.asked], timeout=0)
    if not ready:
        return False
    answer, session.asked = session.asked, None
    try:
        return bool(ray.get(answer))
    except ray.exceptions.RayError:
        return False  # the board is gone with the driver: whoever took it ends this process too


def agree(*said: bool) -> tuple[bool, ...]:
    """One answer for all ranks: True where any of them said so (without a process group: where rank 0 did)."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        if torch.distributed.get_world_size() == 1:
            return said
        cuda = torch.distributed.get_backend() == "nccl"
        box = torch.tensor([int(one) for one in said], device="cuda" if cuda else "cpu")
        torch.distributed.all_reduce(box, op=torch.distributed.ReduceOp.MAX)
        return tuple(bool(value) for value in box.tolist())
    import ray.train

    if ray.train.get_context().get_world_size() == 1:
        return said
    from ray.train.collective import broadcast_from_rank_zero

    return tuple(broadcast_from_rank_zero(list(said)))


def stop_requested(every: int = 1) -> bool:
    """Whether the sweep was asked to stop. Call it at batch or epoch boundaries, then report a checkpoint and return.

    With several workers the call is a collective: every rank must call it equally often, and all get the same answer.

    Args:
        every: only each so-many-th call asks the other ranks; 10 or more keeps the cost out of short batches.
    """
    session = current()
    if session.stopped:
        return True
    session.calls += 1
    if session.calls % every:
        return False
    (session.stopped,) = agree(flag(session))
    return session.stopped
