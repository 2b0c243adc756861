"""Waiting for a thing to become true, with an error that says what was last seen."""

import time
from collections.abc import Callable

from devcluster.errors import DevClusterError


def wait_for(what: str, probe: Callable[[], str | None], timeout: float, hint: str = "", every: float = 0.1) -> None:
    """Call ``probe`` until it returns None.

    Args:
        what: the thing awaited, for the error.
        probe: None when it is there, else why not; may raise DevClusterError to give up at once.
        timeout: seconds.
        hint: where to look, added to the error.
        every: seconds between two calls.

    Raises:
        DevClusterError: it did not come true in time.
    """
    until = time.monotonic() + timeout
    while True:
        why = probe()
        if why is None:
            return
        if time.monotonic() > until:
            raise DevClusterError(f"{what}: not within {timeout:g} s; last seen: {why}. {hint}".rstrip())
        time.sleep(every)
