"""`make mutants`: the fixed list against the simulation, then random mutants against unit tests and simulation.

Everything happens in copies of the tree. The random part keeps its session in the cache folder: `MINUTES=n` runs so much
of it, and the next call goes on from there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tests.mutants import random_part
from tests.mutants.fixed import MUTANTS, Mutant
from tests.simulation import section

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("operator/trainsweep", "trainjobs", "tests", "examples", "manifests", "docs", "charts")
FILES = ("pyproject.toml", "CHANGELOG.md")
"""What a copy needs."""


SOUND = 100
"""Seeds that must hold without a mutant before any is tried."""


class DoesNotApply(SystemExit):  # named for what it says
    """The list is older than the code."""


def copy(to: Path) -> None:
    """A tree to break."""
    for part in PARTS:
        shutil.copytree(ROOT / part, to / part, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for file in FILES:
        shutil.copy2(ROOT / file, to / file)


def environment(tree: Path) -> dict[str, str]:
    """Python looks into that tree and no other."""
    return {**os.environ, "PYTHONPATH": f"{tree / 'operator'}:{tree}", "PYTHONDONTWRITEBYTECODE": "1"}


def patched(mutant: Mutant, text: str) -> str:
    """The file with the fault.

    Raises:
        DoesNotApply: where the place is not there, or there twice.
    """
    if text.count(mutant.old) != 1:
        raise DoesNotApply(
            f"mutant '{mutant.name}' does not apply to {mutant.file}: bring tests/mutants/fixed.py up to date"
        )
    return text.replace(mutant.old, mutant.new)


def hunt(mutant: Mutant | None, seeds: int) -> str:
    """How the simulation finds the mutant, or something in the code as it is (None); "" where it does not."""
    name = mutant.name if mutant else "none"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy(tree)
        if mutant is not None:
            (tree / mutant.file).write_text(patched(mutant, (tree / mutant.file).read_text()))
        command = [sys.executable, "-m", "tests.mutants.hunt", "--seeds", str(seeds)]
        done = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"mutant '{name}' does not run:\n{done.stderr[-2000:]}")
    return done.stdout.strip() if done.returncode == 0 else ""


def fixed(seeds: int, workers: int, only: str) -> int:
    """The fixed list; gives back how many were not found."""
    chosen = [m for m in MUTANTS if only in m.name]
    for mutant in chosen:
        patched(mutant, (ROOT / mutant.file).read_text())
    sound = hunt(None, min(seeds, SOUND))
    if sound:
        raise SystemExit(f"the simulation fails without a mutant, so it proves nothing: {sound}")
    missed, rows = 0, []
    with ThreadPoolExecutor(workers) as pool:
        for mutant, found in zip(chosen, pool.map(lambda m: hunt(m, seeds), chosen), strict=True):
            missed += not found
            print(f"{'caught' if found else 'MISSED':<7} {mutant.name:<52} {found}", flush=True)
            rows.append(f"| {mutant.name} | {found or '**missed**'} |")
    figure = f"fixed mutants: caught {len(chosen) - missed} of {len(chosen)}"
    print(figure)
    if not only:
        head = f"{datetime.now(UTC):%Y-%m-%d}, `make mutants PART=fixed`: {figure}."
        section.write("make mutants PART=fixed", "\n".join([head, "", "| mutant | found by |", "| --- | --- |", *rows]))
    return missed


def main() -> int:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=int(os.environ.get("SEEDS") or 1000))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="of the fixed list, only names that contain this")
    parser.add_argument("--part", choices=("fixed", "random", "both"), default=os.environ.get("PART") or "both")
    minutes = os.environ.get("MINUTES")
    parser.add_argument("--minutes", type=float, default=float(minutes) if minutes else None)
    args = parser.parse_args()
    began = time.monotonic()
    bad = 0
    if args.part in ("fixed", "both"):
        bad += fixed(args.seeds, args.workers, args.only)
    if args.part in ("random", "both"):
        bad += random_part.run(copy, environment, args.minutes, args.workers)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
