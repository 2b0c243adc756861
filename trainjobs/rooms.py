"""Gives back the room that Ray keeps for trials which were ended by force.

Train asks Ray's AutoscalingCoordinator for its workers' room, and gives it back when its controller ends well. Where Tune
ends a trial (early stopping, a stop rule, a deadline) or the controller dies, nobody does, and it is kept for three minutes
(Ray 2.58): an elastic successor gets what is left of the nodes, or waits while their GPUs idle, and the autoscaler keeps
nodes that nobody needs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import ray

logger = logging.getLogger(__name__)

COORDINATOR = "AutoscalingCoordinator"
DYING_SECONDS = 4.0
"""A controller that is being ended may still ask anew; it is gone about two seconds later."""


class Rooms:
    """Train runs that have ended and whose room may still be kept. Runs in the driver."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended: dict[str, float] = {}

    def ended(self, run_id: str) -> None:
        """Notes that a Train run has ended, however it did."""
        if run_id:
            self._ended.setdefault(run_id, self._clock())

    def tick(self) -> None:
        """Gives back what is due. Cheap: call it often."""
        now = self._clock()
        due = [run_id for run_id, since in self._ended.items() if now - since >= DYING_SECONDS]
        if due:
            self._give_back(due)

    def give_back(self) -> None:
        """Gives back all at once: nothing of the trials is alive any more."""
        self._give_back(list(self._ended))

    def _give_back(self, run_ids: list[str]) -> None:
        for run_id in run_ids:
            self._ended.pop(run_id, None)
        if not run_ids:
            return
        try:
            coordinator = ray.get_actor(COORDINATOR, namespace=COORDINATOR)
            for run_id in run_ids:
                coordinator.cancel_request.remote(f"train-{run_id}")  # one that it does not know is no error
        except Exception as error:  # another Ray may have no such actor: then it takes three minutes
            logger.debug("the room of %d ended trial(s) stays with Ray for a while: %s", len(run_ids), error)
