"""One small named actor between the driver, the trial drivers and the workers: the stop flag and notes about trials.

It lives on the driver's node and takes no CPU. Workers ask it at batch boundaries, without waiting for the answer.
"""

from __future__ import annotations

from typing import Any

import ray

NAME = "trainsweep-board"

STOPPED = "stopped"
"""Note: the loop ended because it saw the stop flag; the trial is not finished."""
FAILED = "failed"
"""Note: a failure that a retry would only repeat, with its message."""
RUN = "run"
"""Note: Ray's id of the Train run that the trial's newest try began."""


class Board:
    """The state; wrapped as an actor by `start`."""

    def __init__(self) -> None:
        self._stop = False
        self._notes: dict[int, dict[str, str]] = {}

    def stop(self, flag: bool = True) -> None:
        """Raises or lowers the flag."""
        self._stop = flag

    def stop_requested(self) -> bool:
        """The flag."""
        return self._stop

    def note(self, index: int, kind: str, text: str) -> None:
        """Leaves a note about a trial."""
        self._notes.setdefault(index, {})[kind] = text[:1000]

    def notes(self, index: int, clear: bool = False) -> dict[str, str]:
        """The notes about a trial."""
        return self._notes.pop(index, {}) if clear else self._notes.get(index, {})


def start() -> Any:
    """Starts the actor on this node and returns its handle. The driver must hold on to it."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    handle = ray.remote(Board).options(name=NAME, num_cpus=0, scheduling_strategy=here, max_concurrency=1).remote()
    ray.get(handle.stop_requested.remote())
    return handle


def find() -> Any:
    """The actor's handle, from anywhere in the same Ray job; ValueError where there is none."""
    return ray.get_actor(NAME)
