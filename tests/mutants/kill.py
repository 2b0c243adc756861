"""What a random mutant has to outlive: the unit tests of core/ and apply(), then the kept schedules and some seeds.

In the order of what finds most in the shortest time. Exit 0: it has survived.
"""

from __future__ import annotations

import logging
import sys

import pytest

SEEDS = 30
TESTS = ("tests/unit/core", "tests/unit/runtime/test_runtime_apply.py")


def main() -> int:
    """Ends with the first that fails."""
    if pytest.main(["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]) != 0:
        return 1
    from tests.mutants.hunt import found

    logging.disable(logging.CRITICAL)
    return 1 if found(SEEDS) else 0


if __name__ == "__main__":
    sys.exit(main())
