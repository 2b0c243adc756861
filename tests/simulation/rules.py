"""Counts which rule of `core.ends` has decided each end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from trainsweep.core import conclude, ends
from trainsweep.core.ends import RULES, EndFacts, EndVerdict


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Everything that is classified inside, by the text of the rule."""
    counts: Counter[str] = Counter()

    def classify(facts: EndFacts) -> EndVerdict:
        rule = next(r for r in RULES if r.test(facts))
        counts[rule.text] += 1
        return ends.classify(facts)

    before = conclude.classify
    conclude.classify = classify  # type: ignore[attr-defined]  # not in the stubs
    try:
        yield counts
    finally:
        conclude.classify = before  # type: ignore[attr-defined]  # not in the stubs
