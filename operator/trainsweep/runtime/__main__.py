"""`python -m trainsweep.runtime`: the operator process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from trainsweep.runtime import operator
from trainsweep.runtime.settings import SettingsError, from_environment

RECURSION = 50_000
"""An API server takes JSON that is nested 10,000 levels deep; Python's own reader gives up at 1,000 and would end the
watch of all sweeps for the sake of one."""


def main() -> int:
    """Runs until SIGTERM; the exit code says whether it ended well."""
    try:
        settings = from_environment()
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.setrecursionlimit(RECURSION)
    operator.quiet(settings.log_level)
    return asyncio.run(operator.run(settings))


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stderr.flush()
    # Not sys.exit: it would wait for threads that a hanging store holds, longer than the pod's grace.
    os._exit(code)
