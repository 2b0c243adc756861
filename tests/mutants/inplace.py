"""What a mutant inside a function has to outlive: the unit tests and the lives that come through that function.

All of them are run once, so that their lines are known, and that the code as it is survives. For each mutant the server forks;
the child gives the functions that live there the mutated code, clears caches, and goes on until one fails: those of the mutated
line before the others, the quickest first. Time is bounded by the processor's clock, as in `tests.mutants.kill`.

    python -m tests.mutants.inplace FILE --measure  # writes the lines and the seconds of all tests, says `ready`, and ends
    python -m tests.mutants.inplace FILE            # reads `MODULE FIRST LAST` a line; answers `survived`, `killed`, or
                                                    # `unreached`: nothing runs the function but an import, and a fresh
                                                    # process must try it
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import logging
import os
import pickle
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from tests.mutants.kill import OPTIONS, SEEDS, WALL_SECONDS
from tests.simulation.kept import kept
from tests.simulation.life import simulate
from tests.simulation.schedule import Schedule, draw

TARGETS = ("operator/trainsweep/core", "operator/trainsweep/runtime/apply.py")
"""Of what there are mutants."""
TESTS = tuple(f"tests/unit/{layer}" for layer in ("core", "runtime", "plan", "cli", "render"))
"""The unit tests of all that goes through them."""
Key = tuple[str, str, int]
"""A function: its file, its qualified name, its first line."""


@dataclass(frozen=True)
class Test:
    """One unit test, or one life: whether it passes, its seconds, and the lines of the targets that it runs.

    `lines` has an integer a module, whose n-th bit is set for line n: there are a million of them.
    """

    name: str
    passes: Callable[[], bool]
    seconds: float = 0.0
    lines: Mapping[str, int] = field(default_factory=dict)


def target_files() -> set[str]:
    """Absolute paths of what there are mutants of."""
    places = [Path(t) for t in TARGETS]
    return {str(f.resolve()) for p in places for f in ([p] if p.is_file() else p.rglob("*.py"))}


def function_at(source: str, first: int, last: int) -> tuple[int, int] | None:
    """First and last line of the body of the innermost function that holds these lines; None: it is of no function."""
    bodies = [
        (node.body[0].lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return max((b for b in bodies if b[0] <= first and last <= b[1]), default=None)


# ---------------------------------------------------------------------------------------------------- the code in place


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def living(files: set[str]) -> dict[Key, list[FunctionType]]:
    """All functions of these files that exist in this process."""
    found: dict[Key, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in files:
            found.setdefault(_key(one.__code__), []).append(one)
    return found


def caches(files: set[str]) -> list[Any]:
    """Results that functions of these files have kept."""
    found = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
    # Some wrap what has no code, being built in.
    return [one for one in found if getattr(getattr(one.__wrapped__, "__code__", None), "co_filename", "") in files]


def put_in_place(path: str, functions: dict[Key, list[FunctionType]]) -> None:
    """Gives the functions of a file the code that stands in it now.

    Raises:
        ValueError: where a function's code does not fit the one that lives.
    """
    for code in _codes(compile(Path(path).read_text(), path, "exec", dont_inherit=True)):
        for function in functions.get(_key(code), ()):
            if function.__code__ != code:
                function.__code__ = code


# ---------------------------------------------------------------------------------------------------- which lines it runs


class Tracer:
    """Notes the lines of some files that a call comes through, in all threads."""

    def __init__(self, files: set[str]) -> None:
        self._files, self.seen = files, set[tuple[str, int]]()

    def __enter__(self) -> Tracer:
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # typeshed asks for a function; None is how it ends

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._line if frame.f_code.co_filename in self._files else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def _measured(test: Test, files: set[str]) -> Test:
    began = time.process_time()
    with Tracer(files) as tracer:
        passed = test.passes()
    if not passed:
        raise RuntimeError(f"the code as it is does not survive {test.name}: run `make test-fast`")
    lines: dict[str, int] = {}
    for file, line in tracer.seen:
        module = str(Path(file).relative_to(Path.cwd()))
        lines[module] = lines.get(module, 0) | 1 << line
    return Test(test.name, test.passes, time.process_time() - began, lines)


# ---------------------------------------------------------------------------------------------------- the server


class Server:
    """A pytest plugin that collects the tests, and measures them or answers instead of running them."""

    def __init__(self, answers: Any, known: Path, *, measure: bool) -> None:
        self._answers, self._known, self._measure, self._failed = answers, known, measure, False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests = [*map(self._unit, session.items), *(_life(*one) for one in enumerate(_schedules()))]
        try:
            if self._measure:
                measured = [_measured(t, target_files()) for t in tests]
                self._known.write_bytes(pickle.dumps({t.name: (t.seconds, t.lines) for t in measured}))
                self._say("ready")
            else:
                known = pickle.loads(self._known.read_bytes())  # noqa: S301  # ours
                self._serve([Test(t.name, t.passes, *known[t.name]) for t in tests])
        except Exception as error:
            self._say(repr(error))
        return True

    def _serve(self, tests: list[Test]) -> None:
        if not tests[-1].passes():  # also for what it imports and caches
            raise RuntimeError(f"{tests[-1].name} does not pass twice")
        files = target_files()
        functions, kept_results = living(files), caches(files)
        gc.collect()
        gc.freeze()  # no child looks through all of it again
        self._say("ready")
        for line in sys.stdin:
            module, first, last = line.split()
            chosen = _chosen(tests, module, int(first), int(last))
            path = str(Path(module).resolve())
            self._say(_forked(chosen, path, functions, kept_results) if chosen else "unreached")

    def _unit(self, item: pytest.Item) -> Test:
        def passes() -> bool:
            self._failed = False
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            return not self._failed

        return Test(item.nodeid, passes)

    def _say(self, word: str) -> None:
        self._answers.write(f"{word}\n")
        self._answers.flush()


def _chosen(tests: list[Test], module: str, first: int, last: int) -> list[Test]:
    """Those that come through the function of these lines, in the order in which they are run."""
    body = function_at(Path(module).read_text(), first, last)
    if body is None:
        return []
    through, there = _bits(*body), _bits(first, last)
    return sorted(
        (t for t in tests if t.lines.get(module, 0) & through), key=lambda t: (not t.lines[module] & there, t.seconds)
    )


def _bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)


def _schedules() -> list[Schedule]:
    return [*(k.schedule for k in kept()), *map(draw, range(SEEDS))]


def _life(number: int, schedule: Schedule) -> Test:
    def passes() -> bool:
        logging.disable(logging.CRITICAL)
        try:
            simulate(schedule)
        except Exception:  # whatever it is, the mutant is found
            return False
        finally:
            logging.disable(logging.NOTSET)
        return True

    return Test(f"life {number}, of seed {schedule.seed}", passes)


def _forked(tests: list[Test], path: str, functions: dict[Key, list[FunctionType]], kept_results: list[Any]) -> str:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return {0: "survived", 2: "unreached"}.get(os.waitstatus_to_exitcode(status), "killed")
    code = 1
    with contextlib.suppress(BaseException):
        seconds = int(5 + 3 * sum(t.seconds for t in tests))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        signal.alarm(WALL_SECONDS)
        try:
            put_in_place(path, functions)
        except ValueError:
            os._exit(2)
        for cache in kept_results:
            cache.cache_clear()
        code = 0 if all(t.passes() for t in tests) else 1
    os._exit(code)


def main() -> int:
    """Serves until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_RDWR)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    server = Server(answers, Path(sys.argv[1]), measure="--measure" in sys.argv[2:])
    code = int(pytest.main([*OPTIONS, "-s", *TESTS], plugins=[server]))
    if code:
        answers.write(f"pytest cannot run {' '.join(TESTS)} in {Path.cwd()}: {code}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
