"""Looks for a life that fails, in the tree that it is run in. Exit 0: found; 1: none; anything else: it did not run."""

from __future__ import annotations

import argparse
import logging

from tests.simulation.kept import kept
from tests.simulation.life import Failed, simulate
from tests.simulation.schedule import draw


def found(seeds: int) -> str:
    """The first life that fails, the kept schedules before fresh ones; "" where none does."""
    for number, item in enumerate(kept()):
        try:
            simulate(item.schedule)
        except Failed as failed:
            return f"kept schedule {number}: {_brief(failed)}"
    for seed in range(seeds):
        try:
            simulate(draw(seed))
        except Failed as failed:
            return f"seed {seed}: {_brief(failed)}"
    return ""


def main() -> int:
    """Hunts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    logging.disable(logging.CRITICAL)
    text = found(parser.parse_args().seeds)
    print(text)
    return 0 if text else 1


def _brief(failed: Failed) -> str:
    return f"{type(failed.error).__name__}: {failed.error}".splitlines()[0][:120]


if __name__ == "__main__":
    raise SystemExit(main())
