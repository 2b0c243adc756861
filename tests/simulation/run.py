"""`make simulate`: many schedules on every core, counted; fails on a violation and where a count is under its bound.

`SEEDS=n` sets how many, `SEED=k` runs one and prints its life, `FROM=k` starts at a seed instead of a fresh one: such a run,
where it was ended before its end, goes on with the next call, as long as the code is the same. A whole run that holds is
written into docs/reliability/simulation.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import pickle
import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.simulation import section
from tests.simulation.faults import CELLS
from tests.simulation.kept import kept, line_of
from tests.simulation.life import Failed, Tally, simulate
from tests.simulation.schedule import Schedule, draw
from tests.simulation.shrink import shrunk
from trainsweep.core.ends import RULES

ROOT = Path(__file__).resolve().parents[2]
CODE = ("operator/trainsweep", "tests/simulation")
CACHE = Path(os.environ.get("TRAINSWEEP_CACHE") or Path.home() / ".cache" / "trainsweep") / "simulate"
CHUNK = 50
JUDGED = 10_000
"""From so many schedules on the counts are held against their bounds."""
EACH_CELL, EACH_RULE, MEDIAN_STEPS, LEAST_FAULTS, LEAST_CRASHES = 50, 100, 150, 3, 1
CORES, MINUTES = 2, 45.0
"""A whole run takes so many cores so long at most, counted in processor time: others may use the machine too."""
SHRINK = 3
"""Failures that are shrunk; the others are only named."""


@dataclass
class Part:
    """The result of one chunk."""

    tally: Tally
    failed: list[tuple[int, str, str]]
    """Seed, what failed, and the whole text."""
    seconds: float = 0.0
    """Processor time."""


def sources() -> str:
    """Names the code as it is now."""
    digest = hashlib.sha256()
    for place in CODE:
        for file in sorted((ROOT / place).rglob("*.py")):
            digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def chunk(seeds: Sequence[int]) -> Part:
    """Runs some seeds."""
    logging.disable(logging.CRITICAL)
    part, began = Part(Tally(), []), time.process_time()
    for seed in seeds:
        try:
            part.tally.add(simulate(draw(seed))[0])
        except Failed as failed:
            part.failed.append((seed, failed.what, str(failed)))
    part.seconds = time.process_time() - began
    return part


def remembered(seeds: Sequence[int], folder: Path) -> Part:
    """As `chunk`, but what an earlier call has run is not run again."""
    file = folder / f"{seeds[0]}-{len(seeds)}.pickle"
    if file.exists():
        found: Part = pickle.loads(file.read_bytes())  # noqa: S301  # ours, of the same code
        return found
    part = chunk(seeds)
    new = file.with_suffix(".new")
    new.write_bytes(pickle.dumps(part))
    new.rename(file)
    return part


def run(seeds: Sequence[int], workers: int) -> Part:
    """Runs all seeds, with a line of progress now and then."""
    whole, began, told = Part(Tally(), []), time.monotonic(), 0.0
    folder = CACHE / sources()
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool:
        jobs = [pool.submit(remembered, seeds[i : i + CHUNK], folder) for i in range(0, len(seeds), CHUNK)]
        for job in as_completed(jobs):
            part = job.result()
            whole.tally.add(part.tally)
            whole.failed += part.failed
            whole.seconds += part.seconds
            for seed, what, _ in part.failed:
                print(f"seed {seed}: {what}", flush=True)
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f"{whole.tally.lives:>6} of {len(seeds)}, {told - began:.0f} s", flush=True)
    return whole


def judge(tally: Tally) -> list[str]:
    """What is under its bound."""
    bad = []
    if statistics.median(tally.steps) < MEDIAN_STEPS:
        bad.append(f"the median life has {statistics.median(tally.steps)} calls, {MEDIAN_STEPS} are wanted")
    bad += [f"{n} lives with fewer than {LEAST_FAULTS} faults" for n in _below(tally.faults, LEAST_FAULTS)]
    bad += [f"{n} lives without a crash" for n in _below(tally.crashes, LEAST_CRASHES)]
    bad += [f"{io} x {f}: {tally.hit[io, f]} of {EACH_CELL}" for io, f in CELLS if tally.hit[io, f] < EACH_CELL]
    bad += [f"rule '{r.text}': {tally.rules[r.text]} of {EACH_RULE}" for r in RULES if tally.rules[r.text] < EACH_RULE]
    return bad


def _below(values: list[int], bound: int) -> list[int]:
    few = sum(v < bound for v in values)
    return [few] if few else []


def table(tally: Tally, cost: str) -> str:
    """All counts, as Markdown."""
    lines = [
        f"{tally.lives} schedules in {cost}; calls in a life: median {statistics.median(tally.steps):.0f}, "
        f"least {min(tally.steps)};",
        f"faults: least {min(tally.faults)}, in all {sum(tally.faults)}; "
        f"crashes: least {min(tally.crashes)}, in all {sum(tally.crashes)}.",
        "",
        "| call of apply() | made | crash before | crash after | error | conflict | lost reply |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    names = list(dict.fromkeys(io for io, _ in CELLS))
    for io in names:
        cells = [str(tally.hit[io, f]) if (io, f) in CELLS else "-" for f in _columns()]
        lines.append(f"| {io} | {tally.seen[io]} | {' | '.join(cells)} |")
    lines += ["", "| rule that classified an end | times |", "| --- | --: |"]
    lines += [f"| {r.text} | {tally.rules[r.text]} |" for r in RULES]
    lines += ["", "| how the sweep ended | times |", "| --- | --: |"]
    lines += [f"| {name} | {n} |" for name, n in tally.ends.most_common()]
    lines += ["", "| what happened | times |", "| --- | --: |"]
    lines += [f"| {name} | {n} |" for name, n in tally.made.most_common()]
    return "\n".join(lines)


def _columns() -> tuple[str, ...]:
    return tuple(dict.fromkeys(f for _, f in CELLS))


def one(schedule: Schedule) -> int:
    """One life, told whole."""
    try:
        tally, log = simulate(schedule)
    except Failed as failed:
        small = shrunk(schedule)
        print(failed)
        print(f"\nSHRUNK\n{small}\n\nto keep it, add to kept.jsonl:\n{line_of('WHAT IT FOUND', small)}")
        return 1
    print(schedule)
    print("\n".join(log))
    print(json.dumps({"calls": tally.steps, "faults": dict(tally.made)}))
    return 0


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=int(os.environ.get("SEEDS") or JUDGED))
    parser.add_argument("--seed", type=int, default=int(os.environ["SEED"]) if os.environ.get("SEED") else None)
    fresh = random.SystemRandom().randrange(10**9)
    parser.add_argument("--from", dest="first", type=int, default=int(os.environ.get("FROM") or fresh))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if args.seed is not None:
        return one(draw(args.seed))
    print(f"{args.seeds} schedules from seed {args.first} on {args.workers} cores", flush=True)
    began = time.monotonic()
    bad = []
    for item in kept():
        try:
            simulate(item.schedule)
        except Failed as failed:
            bad.append(f"kept schedule fails again ({item.found}): {failed.what}")
    whole = run(range(args.first, args.first + args.seeds), args.workers)
    minutes, cpu = (time.monotonic() - began) / 60, whole.seconds / 60
    for number, (seed, what, text) in enumerate(sorted(whole.failed)):
        bad.append(f"seed {seed}: {what}")
        if number < SHRINK:
            small = shrunk(draw(seed))
            print(f"\n{text}\n\nSHRUNK\n{small}\n\n{line_of('WHAT IT FOUND', small)}\n")
    counts = table(whole.tally, f"{cpu:.1f} min of processor time") if whole.tally.lives else ""
    print(counts)
    if args.seeds >= JUDGED:
        bad += judge(whole.tally)
        if cpu > CORES * MINUTES:
            bad.append(f"{cpu:.1f} min of processor time, {CORES * MINUTES:.0f} are allowed")
        if not bad:
            when = f"{datetime.now(UTC):%Y-%m-%d}, `make simulate FROM={args.first}`: violations 0 in {counts}"
            section.write("make simulate", when)
    print(f"this call took {minutes:.1f} min")
    for line in bad:
        print(f"FAILED: {line}")
    print(f"violations {len(whole.failed)} in {args.seeds} schedules from seed {args.first}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
