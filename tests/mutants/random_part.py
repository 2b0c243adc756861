"""Random mutants of core/ and of apply(), made by cosmic-ray and killed by unit tests and the simulation.

Their session lies in the cache folder, under a name that follows from the sources: it is gone on with until it is done,
and begun anew when the code has changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TRAINSWEEP_CACHE") or Path.home() / ".cache" / "trainsweep") / "mutants"
SURVIVORS = Path(__file__).with_name("survivors.yaml")
TARGETS = ("operator/trainsweep/core", "operator/trainsweep/runtime/apply.py")
ALONGSIDE = ("tests/unit/core", "tests/unit/runtime", "tests/simulation")
LEAST_KILLED = 0.9
CONFIG = """\
[cosmic-ray]
module-path = [{targets}]
timeout = 120.0
excluded-modules = []
test-command = "{python} -m tests.mutants.kill"

[cosmic-ray.distributor]
name = "local"
"""


@dataclass(frozen=True)
class Survivor:
    """A mutant that nothing killed: the line as it was and as it became."""

    module: str
    before: str
    after: str


def sources() -> str:
    """Names the sources, and what is to kill their mutants, as they are now."""
    digest = hashlib.sha256()
    for place in (*TARGETS, *ALONGSIDE):
        path = ROOT / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def run(copy: Callable[[Path], None], environment: Callable[[Path], Mapping[str, str]], minutes: float | None) -> int:
    """Goes on with the session for some minutes, or to its end; gives back 1 where the figure is not met."""
    tree = CACHE / sources()
    config, session = tree / "cosmic-ray.toml", tree / "session.sqlite"
    if not session.exists():
        tree.mkdir(parents=True, exist_ok=True)
        copy(tree)
        targets = ", ".join(f'"{t}"' for t in TARGETS)
        config.write_text(CONFIG.format(targets=targets, python=sys.executable))
        _cosmic_ray(tree, environment, "init", config, session)
    else:
        copy(tree)  # a slice that was ended in the middle of a mutant has left it there
    _cosmic_ray(tree, environment, "exec", config, session, seconds=minutes * 60 if minutes else None)
    return report(session)


def _cosmic_ray(
    tree: Path, environment: Callable[[Path], Mapping[str, str]], *args: Any, seconds: float | None = None
) -> None:
    command = [str(Path(sys.executable).with_name("cosmic-ray")), *map(str, args)]
    try:
        subprocess.run(command, cwd=tree, env=dict(environment(tree)), timeout=seconds, check=True)
    except subprocess.TimeoutExpired:
        print("the time of this slice is over; the next call goes on", flush=True)


def outcomes(session: Path) -> Iterator[tuple[Survivor, bool]]:
    """Every mutant that has been tried, and whether it was killed."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome

    with use_db(str(session), WorkDB.Mode.open) as db:
        for item, result in db.completed_work_items:
            diff = (result.diff or "").splitlines()
            lines = {
                mark: [text[1:].strip() for text in diff if text[:1] == mark and text[:3] != mark * 3] for mark in "-+"
            }
            mutant = Survivor(str(item.mutations[0].module_path), " ".join(lines["-"]), " ".join(lines["+"]))
            yield mutant, result.test_outcome is not TestOutcome.SURVIVED


def pending(session: Path) -> int:
    """How many have not been tried yet."""
    from cosmic_ray.work_db import WorkDB, use_db

    with use_db(str(session), WorkDB.Mode.open) as db:
        return sum(1 for _ in db.pending_work_items)


def known() -> dict[Survivor, str]:
    """Survivors with the reason why nothing can, or need, kill them."""
    listed = yaml.safe_load(SURVIVORS.read_text()) or []
    return {Survivor(s["module"], s["before"], s["after"]): s["reason"] for s in listed}


def report(session: Path) -> int:
    """Prints the figure and the survivors; 1 where too many live, or one without a reason, or some were not tried."""
    tried = list(outcomes(session))
    killed = sum(ok for _, ok in tried)
    left, reasons = pending(session), known()
    unlisted = [mutant for mutant, ok in tried if not ok and not reasons.get(mutant)]
    for mutant in unlisted:
        print(f"SURVIVED {mutant.module}\n  - {mutant.before}\n  + {mutant.after}")
    share = killed / len(tried) if tried else 0.0
    print(f"{len(unlisted)} survivors without a reason; {left} mutants not tried yet")
    print(f"random mutants: caught {killed} of {len(tried)} ({share:.1%})")
    return int(share < LEAST_KILLED or bool(unlisted) or bool(left))
