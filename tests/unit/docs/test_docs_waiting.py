"""docs/reference/waiting.md is what the tables of core/pending say. After a change that is meant, write it anew:

WRITE_PAGES=1 pytest tests/unit/docs/test_docs_waiting.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trainsweep.core.pending import containers, ec2, image, kueue, node_supply, quota, record, storage

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "waiting.md"
HEAD = """\
# How a wait is recognised

A sweep that waits says why in `status.pending`, and `trainsweep why` what to do. Where a component has only words for it, these
are what is looked for, in this order; a test compares this page with the code. What passes by itself is told without a Warning.
"""


def _table(title: str, rows: list[tuple[str, str, str, bool]]) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield "| where it says | reason | what to do | passes by itself |"
    yield "| --- | --- | --- | --- |"
    for mark, reason, cure, passing in rows:
        cells = (f"`{mark}`", f"`{reason}`", cure, "yes" if passing else "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """All tables."""
    stores = [(mark, why, cure, why in storage._PASSING) for marks, why, cure in storage._TEXTS for mark in marks]
    tables = {
        "Kueue: the words of a Workload": [(m, w, c, p) for m, w, c, p in kueue._TEXTS],
        "Kueue: the reason of QuotaReserved": [(m, w, c, p) for m, (w, c, p) in kueue._REASONS.items()],
        "Kueue: the reason of Evicted": [(m, w, c, p) for m, (w, c, p) in kueue._EVICTED.items()],
        "The API server, of a RayJob or a pod": [(m, w, c, p) for m, w, c, p in quota._TEXTS],
        "Karpenter": [(m, w, f"{o}: {c}", False) for m, w, o, c in node_supply._KARPENTER],
        "EC2, as Karpenter and cluster-autoscaler hand it on": [
            (m, w, f"{o}: {c}", False) for m, w, o, c in ec2._CODES
        ],
        "The kubelet, of volumes and sandboxes": [(m, w, c, False) for m, (w, c) in image._MOUNTS.items()],
        "The object store": stores,
    }
    lists = {
        "A pod that a node gives up": containers.REJECTIONS,
        "An image that is not there": image._NOT_FOUND,
        "An image that may not be had": image._DENIED,
        "An image for which an attempt ends after ten minutes": record._NOT_FOUND,
        "An image for which it ends after one": record._NEVER,
    }
    lines = [HEAD.rstrip("\n")]
    for title, rows in tables.items():
        lines += _table(title, rows)
    for title, words in lists.items():
        lines += [f"\n## {title}\n", ", ".join(f"`{word}`" for word in words)]
    return "\n".join(lines) + "\n"


def test_the_page_is_what_the_tables_say() -> None:
    if os.environ.get("WRITE_PAGES"):
        PAGE.write_text(page(), encoding="utf-8")
    assert page() == PAGE.read_text(encoding="utf-8")


def test_what_does_not_pass_by_itself_has_a_cure() -> None:
    tables = [*kueue._TEXTS, *quota._TEXTS, *((m, *r) for m, r in (kueue._REASONS | kueue._EVICTED).items())]
    assert [mark for mark, _, cure, passing in tables if not passing and not cure] == []
