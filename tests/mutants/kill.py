"""What a random mutant has to outlive: the unit tests of core/ and apply(), then the kept schedules and some seeds.

In the order of what finds most in the shortest time: the tests of the changed file before the others. Time is bounded by
the processor's clock: what a busy machine delays is not killed by that.

    python -m tests.mutants.kill [MODULE]     # exit 0: the code in this tree, changed in that module, has survived
    python -m tests.mutants.kill --serve      # a module a line; answers `survived` or `killed`

The server has imported what no mutant changes and forks for each: a start of Python and its imports cost more than most
mutants live.
"""

from __future__ import annotations

import importlib
import logging
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

SEEDS = 15
TESTS = (
    "tests/unit/docs/test_docs_timings.py",
    "tests/unit/docs/test_docs_waiting.py",
    "tests/unit/core",
    "tests/unit/runtime/test_runtime_apply.py",
)
CPU_SECONDS = 60
"""About five times of what surviving takes."""
WALL_SECONDS = 1800
"""For a mutant that only waits."""
OPTIONS = ("-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")
BELOW = ("hypothesis", "yaml", "trainsweep.api.spec", "trainsweep.api.status", "trainsweep.contract.documents")
"""What no mutant is of: libraries, and the layers below core/."""
UNCHANGED = ""
"""The module to name for the code as it is: it must survive, or nothing is proven."""


def own_tests(module: str) -> list[str]:
    """Test files that are named after a module."""
    stem = Path(module).stem
    return sorted(str(f) for test in TESTS for f in Path(test).parent.rglob(f"test_*{stem}*.py") if "core" in str(f))


def survives(module: str) -> bool:
    """Ends with the first that fails."""
    first = own_tests(module) if module else []
    if pytest.main([*OPTIONS, *first, *TESTS]) != 0:
        return False
    from tests.mutants.hunt import found

    logging.disable(logging.CRITICAL)
    return not found(SEEDS)


def _forked(module: str) -> bool:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return status == 0
    code = 1
    try:
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
        signal.alarm(WALL_SECONDS)
        # Bytecode is kept of the code as it is; Python knows the changed file by its time.
        sys.dont_write_bytecode = module != UNCHANGED
        code = 0 if survives(module) else 1
    finally:
        os._exit(code)


def serve() -> None:
    """Answers until its input ends."""
    for name in BELOW:
        importlib.import_module(name)
    for line in sys.stdin:
        print("survived" if _forked(line.strip()) else "killed", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        sys.exit(0 if survives(sys.argv[1] if len(sys.argv) > 1 else UNCHANGED) else 1)
