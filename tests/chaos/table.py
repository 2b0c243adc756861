"""The table of docs/reliability.md and the rows that it is written from."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chaos.measure import Row

HEAD = """# Reliability: what faults cost

Every row is a fault on a real cluster (API server, kubelet, KubeRay, Ray pods and S3 server on one machine) against a sweep of
two trials on one GPU; `make chaos` makes the run and writes this page. Faults that touch one sweep only strike two at a time.
*Recovery* is the time from the fault to the next committed checkpoint, or to the sweep's end; *GPU-seconds* are those that the
sweep's pods held in that time. *Lost* counts owed files that are not in the store as the receipt says, and trials whose committed
epochs are not whole; *leaked* counts pods, clusters and holds that outlived the sweep.

| fault | end | attempts | lost | leaked | recovery (s) | GPU-seconds | seen |
| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |
"""


def line(row: Row) -> str:
    """One row as Markdown."""
    recovery = "" if row.recovery_seconds is None else f"{row.recovery_seconds:.0f}"
    end = row.state if not row.problem else f"**{row.state}: {row.problem}**"
    return (
        f"| {row.fault} | {end} | {row.attempts} | {row.lost} | {row.leaked} | {recovery} | "
        f"{row.gpu_seconds:.0f} | {row.date} |"
    )


def read(path: Path) -> dict[str, Row]:
    """Rows of earlier runs by fault."""
    if not path.exists():
        return {}
    return {r["fault"]: Row(**r) for r in json.loads(path.read_text())}


def write(results: Path, page: Path, rows: list[Row]) -> None:
    """Writes the rows and the page."""
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps([r.as_dict() for r in rows], indent=1) + "\n")
    page.write_text(HEAD + "\n".join(line(r) for r in rows) + "\n")
