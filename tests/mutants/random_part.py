"""Random mutants of core/ and of apply(), made by cosmic-ray and killed by unit tests and the simulation.

Their session lies in the cache folder, under a name that follows from the code: it is gone on with until it is done, and
begun anew when the code has changed. When tests have changed, those that had survived are tried again. They are tried in
random order: what a slice of the time has tried is a fair sample of all of them.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.mutants.kill import UNCHANGED
from tests.simulation import section

if TYPE_CHECKING:
    from cosmic_ray.work_item import WorkItem, WorkResult

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("TRAINSWEEP_CACHE") or Path.home() / ".cache" / "trainsweep") / "mutants"
SURVIVORS = Path(__file__).with_name("survivors.yaml")
TARGETS = ("operator/trainsweep/core", "operator/trainsweep/runtime/apply.py")
KILLERS = ("tests/corpus", "tests/unit/core", "tests/unit/runtime", "tests/simulation", "tests/mutants/kill.py")
LEAST_KILLED = 0.9
SAME = ("_Eq_Is", "_Is_Eq", "_NotEq_IsNot", "_IsNot_NotEq")
"""Ends of the names of operators that change nothing: for None, members of enumerations and small numbers `is` is `==`."""
CONFIG = """\
[cosmic-ray]
module-path = [{targets}]
timeout = 1.0
excluded-modules = []
test-command = "false"

[cosmic-ray.distributor]
name = "local"
"""


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
            found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]


def run(
    copy: Callable[[Path], None],
    environment: Callable[[Path], Mapping[str, str]],
    minutes: float | None,
    workers: int,
) -> int:
    """Goes on with the session for some minutes, or to its end; gives back 1 where the figure is not met."""
    home = CACHE / digest(TARGETS)
    session = home / "session.sqlite"
    if not session.exists():
        tree = home / "0"
        copy(tree)
        _begin(tree, environment(tree), session)
    _go_on(copy, environment, session, minutes, workers)
    return report(session)


def _begin(tree: Path, environ: Mapping[str, str], session: Path) -> None:
    """All mutants of the tree, but for those that cannot change what it does."""
    from cosmic_ray.work_db import WorkDB, use_db

    config, new = session.with_name("cosmic-ray.toml"), session.with_suffix(".new")
    new.unlink(missing_ok=True)
    config.write_text(CONFIG.format(targets=", ".join(f'"{t}"' for t in TARGETS)))
    tool = str(Path(sys.executable).with_name("cosmic-ray"))
    subprocess.run([tool, "init", str(config), str(new)], cwd=tree, env=dict(environ), check=True)
    with use_db(str(new), WorkDB.Mode.open) as db:
        items = list(db.work_items)
        kept = [
            item
            for item in items
            if not item.mutations[0].operator_name.endswith(SAME) and not _in_annotation(tree, item)
        ]
        db.clear()
        db.add_work_items(kept)
    print(
        f"{len(kept)} mutants; {len(items) - len(kept)} more are of annotations, which nothing evaluates, or put `is` for `==`"
    )
    new.rename(session)


def _in_annotation(tree: Path, item: WorkItem) -> bool:
    """Whether a mutant only changes a type annotation: all modules postpone their evaluation for ever."""
    mutation = item.mutations[0]
    return any(begin <= mutation.start_pos < end for begin, end in _annotations(tree / mutation.module_path))


_KNOWN: dict[Path, list[tuple[tuple[int, int], tuple[int, int]]]] = {}


def _annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Begin and end (line, column) of every annotation of a module."""
    if path not in _KNOWN:
        text = path.read_text()
        nodes: list[ast.expr | None] = []
        for node in ast.walk(ast.parse(text)) if "from __future__ import annotations" in text else ():
            if isinstance(node, ast.arg | ast.AnnAssign):
                nodes.append(node.annotation)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                nodes.append(node.returns)
        _KNOWN[path] = [
            ((n.lineno, n.col_offset), (n.end_lineno or n.lineno, n.end_col_offset or 0)) for n in nodes if n
        ]
    return _KNOWN[path]


def _go_on(
    copy: Callable[[Path], None],
    environment: Callable[[Path], Mapping[str, str]],
    session: Path,
    minutes: float | None,
    workers: int,
) -> None:
    """Tries what was not tried yet, each worker in a tree of its own."""
    from cosmic_ray.work_db import WorkDB, use_db

    killers = digest(KILLERS)
    context = multiprocessing.get_context("spawn")
    trees: SimpleQueue[tuple[str, dict[str, str]]] = context.SimpleQueue()
    for number in range(workers):
        tree = session.parent / str(number)
        shutil.rmtree(tree, ignore_errors=True)  # a slice may have been ended in the middle of a mutant
        copy(tree)
        trees.put((str(tree), dict(environment(tree))))
    until = time.monotonic() + minutes * 60 if minutes else float("inf")
    with (
        use_db(str(session), WorkDB.Mode.open) as db,
        ProcessPoolExecutor(workers, mp_context=context, initializer=_settle_in, initargs=(trees,)) as pool,
    ):
        again = [item for item, result in db.completed_work_items if _survived(result) and result.output != killers]
        items = [*db.pending_work_items, *again]
        random.SystemRandom().shuffle(items)
        running: dict[Any, str] = {}
        while running or (items and time.monotonic() < until):
            while items and len(running) < workers and time.monotonic() < until:
                item = items.pop()
                running[pool.submit(_try, item, killers)] = item.job_id
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                db.set_result(running.pop(job), job.result())
    if items:
        print("the time of this slice is over; the next call goes on", flush=True)


class _Killer:
    """The server of `tests.mutants.kill` in a tree."""

    def __init__(self, tree: str, environ: dict[str, str]) -> None:
        command = [sys.executable, "-m", "tests.mutants.kill", "--serve"]
        self._server = subprocess.Popen(
            command, cwd=tree, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if not self.survives(UNCHANGED):
            raise RuntimeError("the code as it is does not survive its own tests: run `make test-fast`")

    def survives(self, module: str) -> bool:
        """Whether the code in the tree, changed in that module, passes."""
        asked, answers = self._server.stdin, self._server.stdout
        assert asked is not None
        assert answers is not None
        asked.write(f"{module}\n")
        asked.flush()
        answer = answers.readline().strip()
        if answer not in ("survived", "killed"):
            raise RuntimeError(f"the killer ended: {answer}")
        return answer == "survived"


_OWN: list[_Killer] = []
"""The one of this process."""


def _settle_in(trees: SimpleQueue[tuple[str, dict[str, str]]]) -> None:
    """A worker takes a tree, and works in no other."""
    tree, environ = trees.get()
    os.chdir(tree)
    _OWN.append(_Killer(tree, environ))


def _try(item: WorkItem, killers: str) -> WorkResult:
    """Puts the mutant into this worker's tree and asks. Its result keeps, as its output, what tried to kill it."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

    (mutation,) = item.mutations
    path = Path(mutation.module_path)
    operator = cosmic_ray.plugins.get_operator(mutation.operator_name)(**mutation.operator_args)
    times = path.stat()
    try:
        with use_mutation(path, operator, mutation.occurrence) as (before, after):
            assert after is not None, f"{path} is not the file that {mutation} was made for"
            survived = _OWN[0].survives(str(path))
    finally:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its bytecode is found again
    return WorkResult(
        output=killers,
        diff="\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)),
        test_outcome=TestOutcome.SURVIVED if survived else TestOutcome.KILLED,
        worker_outcome=WorkerOutcome.NORMAL,
    )


def _survived(result: WorkResult) -> bool:
    from cosmic_ray.work_item import TestOutcome

    return result.test_outcome is TestOutcome.SURVIVED


def outcomes(session: Path) -> Iterator[tuple[Survivor, bool]]:
    """Every mutant that has been tried, and whether it was killed."""
    from cosmic_ray.work_db import WorkDB, use_db

    with use_db(str(session), WorkDB.Mode.open) as db:
        for item, result in db.completed_work_items:
            diff = (result.diff or "").splitlines()
            lines = {
                mark: [text[1:].strip() for text in diff if text[:1] == mark and text[:3] != mark * 3] for mark in "-+"
            }
            mutant = Survivor(str(item.mutations[0].module_path), " ".join(lines["-"]), " ".join(lines["+"]))
            yield mutant, not _survived(result)


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
    """Prints the figure and the survivors, and writes them into the page.

    Gives back 1 where too many live, one has no reason, or some were not tried.
    """
    tried = list(outcomes(session))
    killed = sum(ok for _, ok in tried)
    left, reasons = pending(session), known()
    lived = [mutant for mutant, ok in tried if not ok]
    unlisted = [mutant for mutant in lived if not reasons.get(mutant)]
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
        why = reasons.get(mutant, "not looked at yet")
        lines.append(f"| {Path(mutant.module).name} | {_cell(mutant.before)} | {_cell(mutant.after)} | {why} |")
    section.write("make mutants PART=random", "\n".join(lines))
    return int(share < LEAST_KILLED or bool(unlisted) or bool(left))


def _cell(code: str) -> str:
    return f"`{code}`".replace("|", "\\|")
