"""Thousands of random specs by server dry-run on a real API server, its verdict compared with the offline one each time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.generate import LEAVES, SCHEMA, Generator, covered
from tests.integration.apiserver import ApiServer
from trainsweep.api import API_VERSION
from trainsweep.api.validate import violations

MIN_ADMITTED = 0.40
PER_LEAF, PER_RULE = 50, 20


@dataclass
class Tally:
    """What the server said to all of them."""

    made: int = 0
    admitted: int = 0
    leaves: Counter[tuple[str, ...]] = field(default_factory=Counter)
    rules: Counter[Any] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0
    kept: list[dict[str, Any]] = field(default_factory=list)
    """Admitted specs that the operator must launch."""
    odd: list[dict[str, Any]] = field(default_factory=list)
    """Admitted specs that it must refuse in words."""

    def shortfalls(self, rules: list[Any]) -> list[str]:
        """What was not reached of what a run of 10,000 must reach; smaller runs are held to their share."""
        share = min(1.0, self.made / 10_000)
        found = list(self.differences[:10])
        if self.admitted < MIN_ADMITTED * self.made:
            found.append(f"only {self.admitted} of {self.made} were admitted")
        found += [
            f"{'.'.join(leaf)}: not its default in {self.leaves[leaf]} admitted specs"
            for leaf in LEAVES
            if self.leaves[leaf] < int(PER_LEAF * share)
        ]
        found += [f"rule {key}: refused {self.rules[key]}" for key in rules if self.rules[key] < int(PER_RULE * share)]
        return found


def sweep(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """A manifest."""
    return {"apiVersion": API_VERSION, "kind": "TrainSweep", "metadata": {"name": name}, "spec": spec}


def run(
    api: ApiServer, count: int, seed: int, keep: int, launches: Callable[[dict[str, Any]], bool]
) -> tuple[Tally, Generator]:
    """Asks the server about `count` specs.

    Args:
        api: the server.
        count: how many.
        seed: of the generator.
        keep: how many of the admitted are kept for the live part that get to a RayJob; of the others a fifth of that.
        launches: whether an admitted spec gets to a RayJob there.
    """
    tally, generator = Tally(), Generator(seed)
    started = time.monotonic()
    while tally.made < count:
        made = generator.make()
        tally.made += 1
        told = api.try_create(sweep(made.spec, f"f{tally.made}"))
        ours = violations(made.spec, SCHEMA)
        if bool(told) != bool(ours):
            tally.differences.append(f"spec {tally.made} of seed {seed}: the server says {told[:2]}, we say {ours[:2]}")
        if not told:
            tally.admitted += 1
            fields = covered(made.spec)
            tally.leaves.update(fields)
            generator.learn(fields)
            place, most = (tally.kept, keep) if launches(made.spec) else (tally.odd, keep // 5)
            if len(place) < most:
                place.append(made.spec)
        elif made.rule is not None and any(message.endswith(made.rule[1]) for _, message in told):
            tally.rules[made.rule] += 1
    tally.seconds = time.monotonic() - started
    return tally, generator
