"""Waiting out a store that does not answer: what may pass is tried again for a while, a refusal is not."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from trainjobs.store import StoreError
from trainsweep.contract.documents import FailureReason

logger = logging.getLogger(__name__)

T = TypeVar("T")


def patiently(
    what: str,
    call: Callable[[], T],
    *,
    seconds: float = 120.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """The result of a call to the store, tried again with growing pauses.

    Raises:
        StoreError: a refusal at once, anything else once the time is over.
    """
    end, pause = clock() + seconds, 1.0
    while True:
        try:
            return call()
        except StoreError as error:
            if error.reason is FailureReason.STORAGE_DENIED or clock() + pause > end:
                raise
            logger.warning("%s: %s; trying again in %.0f s", what, error.message, pause)
            sleep(pause)
            pause = min(pause * 2, 15.0)
