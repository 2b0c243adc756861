"""Progress for people: one line when a step begins, one when it took long enough to care."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_QUIET_SECONDS = 2.0


def say(text: str) -> None:
    """Write one line of progress to standard error; standard output stays for data."""
    print(f"devcluster: {text}", file=sys.stderr, flush=True)


@contextmanager
def step(text: str, expected: str = "") -> Iterator[None]:
    """Announce a step, and its true duration at the end.

    Args:
        text: what happens, as a noun phrase or a verb.
        expected: how long it usually takes, as text ("about 6 min"), or nothing.
    """
    say(text + (f" (usually {expected})" if expected else ""))
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    if took >= _QUIET_SECONDS:
        say(f"  done in {took:.1f} s: {text}")
