"""What a random mutant has to outlive: the unit tests of core/ and apply(), then the kept schedules and some seeds.

In the order of what finds most in the shortest time: the tests of the changed file before the others. Exit 0: it has
survived. Time is bounded by the processor's clock: what a busy machine delays is not killed by that.
"""

from __future__ import annotations

import logging
import resource
import sys
from pathlib import Path

import pytest

SEEDS = 30
TESTS = ("tests/unit/core", "tests/unit/runtime/test_runtime_apply.py")
CPU_SECONDS = 120
OPTIONS = ("-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist")


def own_tests(module: str) -> list[str]:
    """Test files that are named after a module."""
    stem = Path(module).stem
    return sorted(str(f) for test in TESTS for f in Path(test).parent.rglob(f"test_*{stem}*.py") if "core" in str(f))


def main() -> int:
    """Ends with the first that fails."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    first = own_tests(sys.argv[1]) if len(sys.argv) > 1 else []
    if pytest.main([*OPTIONS, *first, *TESTS]) != 0:
        return 1
    from tests.mutants.hunt import found

    logging.disable(logging.CRITICAL)
    return 1 if found(SEEDS) else 0


if __name__ == "__main__":
    sys.exit(main())
