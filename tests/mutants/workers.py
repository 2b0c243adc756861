"""Tries mutants side by side: each worker has a tree of its own, and asks its two servers whether the mutant survives."""

from __future__ import annotations

import ast
import difflib
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.mutants.inplace import function_at
from tests.mutants.kill import UNCHANGED

if TYPE_CHECKING:
    from cosmic_ray.work_item import TestOutcome, WorkItem, WorkResult


def go_on(
    copy: Callable[[Path], None],
    environment: Callable[[Path], Mapping[str, str]],
    session: Path,
    minutes: float | None,
    workers: int,
    killers: str,
) -> None:
    """Tries what has survived other tests than these, then what was not tried yet, in random order.

    Args:
        copy: makes a tree to break.
        environment: of a process in a tree.
        session: the file with mutants and results.
        minutes: how long; None: to the end.
        workers: how many at once.
        killers: names the tests as they are now.
    """
    from cosmic_ray.work_db import WorkDB, use_db

    context = multiprocessing.get_context("spawn")
    trees: SimpleQueue[tuple[str, dict[str, str]]] = context.SimpleQueue()
    lines = session.with_name(f"lines-{killers}.pickle")
    for number in range(workers):
        tree = session.parent / str(number)
        shutil.rmtree(tree, ignore_errors=True)  # a slice may have been ended in the middle of a mutant
        copy(tree)
        if not lines.exists():
            _Server(dict(environment(tree)), "tests.mutants.inplace", str(lines), "--measure", tree=tree).answer(
                None, "ready"
            )
        trees.put((str(tree), dict(environment(tree))))
    until = time.monotonic() + minutes * 60 if minutes else float("inf")
    with (
        use_db(str(session), WorkDB.Mode.open) as db,
        ProcessPoolExecutor(workers, mp_context=context, initializer=_settle_in, initargs=(trees, str(lines))) as pool,
    ):
        again = [item for item, result in db.completed_work_items if survived(result) and result.output != killers]
        items = list(db.pending_work_items)
        random.SystemRandom().shuffle(items)
        items += again  # taken first
        running: dict[Any, str] = {}
        while running or (items and time.monotonic() < until):
            while items and len(running) < workers and time.monotonic() < until:
                item = items.pop()
                running[pool.submit(_try, item, killers)] = item.job_id
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                db.set_result(running.pop(job), job.result())
    if items:
        print("the time of this slice is over; the next call goes on", flush=True)


def survived(result: WorkResult) -> bool:
    """Whether nothing killed it."""
    from cosmic_ray.work_item import TestOutcome

    return result.test_outcome is TestOutcome.SURVIVED


class _Server:
    """A process that answers a line with a line."""

    def __init__(self, environ: dict[str, str], *arguments: str, tree: Path | None = None) -> None:
        command = [sys.executable, "-m", *arguments]
        self._process = subprocess.Popen(
            command, cwd=tree, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, question: str | None, *known: str) -> str:
        """What it says to a question, or of itself (None).

        Raises:
            RuntimeError: where it says anything but one of the known words.
        """
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        if question is not None:
            asked.write(f"{question}\n")
            asked.flush()
        said = answers.readline().strip()
        if said not in known:
            raise RuntimeError(f"the killer ended: {said}")
        return said


class _Killers:
    """The servers of one tree. The code as it is survives both, or no mutant is tried."""

    def __init__(self, environ: dict[str, str], lines: str) -> None:
        self._in_place = _Server(environ, "tests.mutants.inplace", lines)
        self._in_place.answer(None, "ready")
        self._fresh = _Server(environ, "tests.mutants.kill", "--serve")
        self._fresh.answer(UNCHANGED, "survived")

    def survives(self, path: Path, source: str, first: int, last: int) -> bool:
        """Whether the code in the tree, changed in these lines of a module, passes."""
        said = "unreached"
        if function_at(source, first, last) is not None:
            said = self._in_place.answer(f"{path} {first} {last}", "survived", "killed", "unreached")
        if said == "unreached":
            said = self._fresh.answer(str(path), "survived", "killed")
        return said == "survived"


_OWN: list[_Killers] = []
"""Those of this process."""


def _settle_in(trees: SimpleQueue[tuple[str, dict[str, str]]], lines: str) -> None:
    """A worker takes a tree, and works in no other."""
    tree, environ = trees.get()
    os.chdir(tree)
    _OWN.append(_Killers(environ, lines))


def _try(item: WorkItem, killers: str) -> WorkResult:
    """Puts the mutant into this worker's tree and asks. Its result keeps, as its output, what tried to kill it."""
    import cosmic_ray.plugins
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.work_item import WorkerOutcome, WorkResult

    (mutation,) = item.mutations
    path = Path(mutation.module_path)
    operator = cosmic_ray.plugins.get_operator(mutation.operator_name)(**mutation.operator_args)
    times = path.stat()
    try:
        with use_mutation(path, operator, mutation.occurrence) as (before, after):
            assert after is not None, f"{path} is not the file that {mutation} was made for"
            outcome = _outcome(path, before, after, mutation.start_pos[0], mutation.end_pos[0])
    finally:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its bytecode is found again
    return WorkResult(
        output=killers,
        diff="\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)),
        test_outcome=outcome,
        worker_outcome=WorkerOutcome.NORMAL,
    )


def _outcome(path: Path, before: str, after: str, first: int, last: int) -> TestOutcome:
    """Killed, survived, or no mutant at all: what is no Python (`{*pod}` with two stars less one) says nothing of tests."""
    from cosmic_ray.work_item import TestOutcome

    try:
        ast.parse(after)
    except SyntaxError:
        return TestOutcome.INCOMPETENT
    return TestOutcome.SURVIVED if _OWN[0].survives(path, before, first, last) else TestOutcome.KILLED
