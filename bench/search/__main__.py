"""`make bench-search`: every function, algorithm and seed, both ways; fails where a value differs in its last bit."""

from __future__ import annotations

import argparse
import statistics
import sys

import torch

from bench.search.compare import ALGORITHMS, FUNCTIONS, direct, through_ours

TRIALS = {"tpe": 60, "cmaes": 100, "gp": 13}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    options = parser.parse_args()
    torch.set_num_threads(1)  # many small matrices: threads only wait for each other
    differ = 0
    print(f"{'function':<13} {'algorithm':<9} trials seeds equal  median best  seconds/proposal: Optuna, ours (ratio)")
    for function in FUNCTIONS:
        for algorithm in options.algorithms.split(","):
            pairs = []
            for seed in range(options.seeds):
                # Interleaved, and each first as often as second: the machine is busy with other things, too.
                calls = [direct, through_ours] if seed % 2 == 0 else [through_ours, direct]
                found = {call.__name__: call(function, algorithm, seed, TRIALS[algorithm]) for call in calls}
                pairs.append((found["direct"], found["through_ours"]))
            equal = sum(a.values == b.values for a, b in pairs)
            differ += options.seeds - equal
            best = statistics.median(min(b.values) for _, b in pairs)
            theirs, ours = (statistics.median(p[i].seconds for p in pairs) / TRIALS[algorithm] for i in (0, 1))
            print(
                f"{function.name:<13} {algorithm:<9} {TRIALS[algorithm]:>6} {options.seeds:>5} {equal:>5}  "
                f"{best:>11.5g}  {theirs:.5f}, {ours:.5f} ({ours / theirs:.2f})",
                flush=True,
            )
    print("all values are equal" if not differ else f"{differ} searches differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
