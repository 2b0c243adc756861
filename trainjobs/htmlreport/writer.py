"""Writes the report beside the training: now and then, at moments that matter, and once at the end.

A report delays nothing and fails nothing: it is made in a thread of its own, seldom enough to cost next to nothing, and
whatever goes wrong with it is a warning.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from trainjobs.htmlreport.facts import Facts
from trainjobs.htmlreport.page import render
from trainjobs.outcome import DriverError
from trainjobs.store import Store
from trainsweep.contract import layout

logger = logging.getLogger(__name__)

EVERY = 180.0
SHARE = 0.02
"""At most this share of one core goes into reports."""


class ReportWriter:
    """The thread. `facts` is called in it, and gives None while there is nothing to tell."""

    def __init__(self, store: Store, facts: Callable[[], Facts | None], every: float = EVERY) -> None:
        self._store, self._facts, self._every = store, facts, every
        self._wake, self._end = threading.Event(), threading.Event()
        self._writing = threading.Lock()
        self._last: object = None
        self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def start(self) -> None:
        """Starts the thread; the first report comes after one interval."""
        self._thread.start()

    def soon(self) -> None:
        """A report is wanted now, such as while the driver waits for a verdict."""
        self._wake.set()

    def close(self, seconds: float) -> bool:
        """The last report; returns whether it was written in time. If not, the driver goes on without it."""
        self._end.set()
        self._wake.set()
        last = threading.Thread(target=self.write, name="last-report", daemon=True)
        last.start()
        last.join(seconds)
        if last.is_alive():
            logger.warning("the last report takes more than %.0f s: left as it was", seconds)
        return not last.is_alive()

    def _run(self) -> None:
        pause = self._every
        while not self._end.is_set():
            self._wake.wait(pause)
            self._wake.clear()
            if self._end.is_set():
                return
            pause = max(self._every, self.write() / SHARE)

    def write(self) -> float:
        """Writes one report where something changed; returns the seconds that it took. Never raises."""
        with self._writing:
            began = time.monotonic()
            try:
                facts = self._facts()
                if facts is not None and (key := _key(facts)) != self._last:
                    self._store.put(layout.REPORT, render(facts))
                    self._last = key
            except DriverError as error:
                logger.warning("%s cannot be written: %s", layout.REPORT, error.message)
            except Exception:
                logger.warning("%s cannot be made", layout.REPORT, exc_info=True)
            return time.monotonic() - began


def _key(facts: Facts) -> object:
    """What must have changed for another report to be worth it: anything but the time."""
    return (
        tuple((r.index, r.state, r.step, r.value, r.retries) for r in facts.records),
        facts.best,
        facts.phase,
        facts.outcome,
        facts.proof,
        facts.receipt_digest,
    )
