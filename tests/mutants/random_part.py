"""Random mutants of core/ and of apply(), made by cosmic-ray and killed by unit tests and the simulation.

Their session lies in the cache folder, under a name that follows from the code: it is gone on with until it is done, and
begun anew when the code has changed. When tests have changed, those that had survived are tried again. They are tried in
random order: what a slice of the time has tried is a fair sample of all of them.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.mutants import drawn
from tests.mutants.inplace import TARGETS, TESTS
from tests.mutants.workers import go_on, survived
from tests.simulation import section

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TRAINSWEEP_CACHE") or Path.home() / ".cache" / "trainsweep") / "mutants"
SURVIVORS = Path(__file__).with_name("survivors.yaml")
KILLERS = ("tests/corpus", *TESTS, "tests/simulation", "tests/mutants/kill.py", "tests/mutants/inplace.py")
"""What tries to kill; tests in the simulation's folder are of the simulation, and do not."""
LEAST_KILLED = 0.9


@dataclass(frozen=True)
class Survivor:
    """A mutant that nothing killed: the line as it was and as it became."""

    module: str
    before: str
    after: str


def digest(places: Iterable[str]) -> str:
    """Names files as they are now."""
    found = hashlib.sha256()
    for place in places:
        path = ROOT / place
        files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.suffix not in ("", ".pyc"))
        for file in files:
            if place == "tests/simulation" and file.name.startswith("test_"):
                continue
            found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]


def run(
    copy: Callable[[Path], None],
    environment: Callable[[Path], Mapping[str, str]],
    minutes: float | None,
    workers: int,
) -> int:
    """Goes on with the session for some minutes, or to its end; gives back 1 where the figure is not met."""
    home = CACHE / digest((*TARGETS, "tests/mutants/drawn.py"))
    session = home / "session.sqlite"
    if not session.exists():
        tree = home / "0"
        copy(tree)
        drawn.begin(tree, environment(tree), session)
    go_on(copy, environment, session, minutes, workers, digest(KILLERS))
    return report(session)


def outcomes(session: Path) -> Iterator[tuple[Survivor, bool]]:
    """Every mutant that has been tried, and whether it was killed; not what was no Python."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome

    with use_db(str(session), WorkDB.Mode.open) as db:
        for item, result in db.completed_work_items:
            if result.test_outcome is TestOutcome.INCOMPETENT:
                continue
            diff = (result.diff or "").splitlines()
            lines = {
                mark: [text[1:].strip() for text in diff if text[:1] == mark and text[:3] != mark * 3] for mark in "-+"
            }
            mutant = Survivor(str(item.mutations[0].module_path), " ".join(lines["-"]), " ".join(lines["+"]))
            yield mutant, not survived(result)


def pending(session: Path) -> int:
    """How many have not been tried yet."""
    from cosmic_ray.work_db import WorkDB, use_db

    with use_db(str(session), WorkDB.Mode.open) as db:
        return sum(1 for _ in db.pending_work_items)


def known() -> list[dict[str, str]]:
    """Why survivors may live: by module, and by what the changed line says (a regular expression that it holds)."""
    listed: list[dict[str, str]] = yaml.safe_load(SURVIVORS.read_text()) or []
    return listed


def reason_of(mutant: Survivor, listed: list[dict[str, str]]) -> str:
    """The reason of the first entry that fits, "" where none does: `was` is looked for before the change, `became` after it."""
    for one in listed:
        fits = re.search(one["was"], mutant.before) and re.search(one.get("became", ""), mutant.after)
        if mutant.module.endswith(one["module"]) and fits:
            return one["reason"]
    return ""


def report(session: Path) -> int:
    """Prints the figure and the survivors, and writes them into the page.

    Gives back 1 where too many live, one has no reason, or some were not tried.
    """
    tried = list(outcomes(session))
    killed = sum(ok for _, ok in tried)
    left, listed = pending(session), known()
    lived = [mutant for mutant, ok in tried if not ok]
    unlisted = [mutant for mutant in lived if not reason_of(mutant, listed)]
    for mutant in unlisted:
        print(f"SURVIVED {mutant.module}\n  - {mutant.before}\n  + {mutant.after}")
    share = killed / len(tried) if tried else 0.0
    sample = f"a random sample of {len(tried)} of {len(tried) + left}" if left else f"all {len(tried)}"
    figure = f"random mutants, {sample}: caught {killed} of {len(tried)} ({share:.1%})"
    print(f"{len(unlisted)} survivors without a reason; {left} mutants not tried yet")
    print(figure)
    lines = [f"{datetime.now(UTC):%Y-%m-%d}, `make mutants PART=random`: {figure}.", ""]
    lines += ["| survivor | was | became | why it may live |", "| --- | --- | --- | --- |"]
    for mutant in lived:
        why = reason_of(mutant, listed) or "not looked at yet"
        lines.append(f"| {Path(mutant.module).name} | {_cell(mutant.before)} | {_cell(mutant.after)} | {why} |")
    section.write("make mutants PART=random", "\n".join(lines))
    return int(share < LEAST_KILLED or bool(unlisted) or bool(left))


def _cell(code: str) -> str:
    return f"`{code}`".replace("|", "\\|")
