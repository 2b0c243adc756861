"""What a local run shows while it runs: a line where the output is a pipe, a table of trials on a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainsweep.cli import show
from trainsweep.contract.documents import Progress, TrialRecord
from trainsweep.contract.owed import better
from trainsweep.runtime.documents_reader import clean, read_trials
from trainsweep.runtime.store import Store, StoreError

READ_SECONDS = 2.0
ROWS = 12
TICKS = "▁▂▃▄▅▆▇█"
STYLES = {"Running": "cyan", "Succeeded": "green", "EarlyStopped": "yellow", "Failed": "red", "Proposed": "dim"}
WORDS = {"EarlyStopped": "stopped early"}


def spark(values: Sequence[float], width: int = 16) -> str:
    """A curve in one line of text: the last points, from the lowest to the highest."""
    shown = list(values)[-width:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    return "".join(TICKS[round((v - low) / span * (len(TICKS) - 1))] for v in shown)


def choose(records: Sequence[TrialRecord], mode: str, rows: int = ROWS) -> list[TrialRecord]:
    """The trials worth a row: those that run, then the best, then the last that failed."""
    running = [r for r in records if r.state == "Running"][:rows]
    sign = -1.0 if mode == "Maximize" else 1.0
    ended = [r for r in records if r.best_value is not None and r.state != "Running"]
    best = sorted(ended, key=lambda r: (sign * (r.best_value or 0.0), r.index))
    failed = [r for r in records if r.state == "Failed" and r.best_value is None][-3:]
    room = max(0, rows - len(running) - len(failed))
    return [*running, *best[:room], *failed]


def _parameters(record: TrialRecord) -> str:
    values = (f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in record.parameters.items())
    return str(clean(" ".join(values), 120))


def trial_table(records: Sequence[TrialRecord], metric: str, mode: str, rows: int = ROWS) -> Table:
    """The rows as a table. Everything in it is text, never markup."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    for name, justify in (("trial", "left"), ("state", "left"), ("epoch", "right"), (metric, "right")):
        table.add_column(Text(str(clean(name, 24))), justify=justify, no_wrap=True)  # type: ignore[arg-type]  # a double, or a union that the stub leaves out
    table.add_column(Text("curve"), no_wrap=True)
    table.add_column(Text("time"), justify="right", no_wrap=True)
    table.add_column(Text("parameters"), no_wrap=True, overflow="ellipsis", ratio=1)
    best: TrialRecord | None = None
    for r in records:
        if r.best_value is not None and (
            best is None or best.best_value is None or better(r.best_value, best.best_value, mode)
        ):
            best = r
    for r in choose(records, mode, rows):
        style = STYLES.get(r.state, "")
        value = "" if r.best_value is None else f"{r.best_value:.6g}"
        last = _parameters(r) if not (r.state == "Failed" and r.error) else str(clean(r.error, 160))
        table.add_row(
            Text(r.trial, style="bold" if r is best else ""),
            Text(WORDS.get(r.state, r.state.lower()), style=style),
            Text(str(r.step)),
            Text(value, style="bold" if r is best else ""),
            Text(spark([v for _, v in r.history]), style=style),
            Text(f"{r.seconds:.0f} s" if r.seconds else ""),
            Text(last, style="red" if r.state == "Failed" else "dim"),
        )
    return table


class View:
    """`with View(...) as view: view.update(progress, problem)`, as often as one likes."""

    def __init__(self, console: Console, store: Store, metric: str, mode: str) -> None:
        self._console, self._store, self._metric, self._mode = console, store, metric, mode
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._last, self._read_at = "", 0.0
        self._records: list[TrialRecord] = []

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def update(self, progress: Progress | None, problem: str = "") -> None:
        """Shows how far it is."""
        line = show.progress_line(progress, problem)
        if self._live is None:
            if line != self._last:
                self._console.print(line, markup=False)
            self._last = line
            return
        self._read()
        parts: list[Text | Table | ProgressBar] = [Text(line)]
        if progress is not None and progress.trials.expected:
            counts = progress.trials
            done = counts.succeeded + counts.early_stopped + counts.failed
            parts.append(ProgressBar(total=counts.expected, completed=done, width=min(60, self._console.width - 2)))
        if self._records:
            room = max(3, min(ROWS, self._console.height - 8))
            parts.append(trial_table(self._records, self._metric, self._mode, room))
        self._live.update(Group(*parts), refresh=True)

    def _read(self) -> None:
        """The record of trials, now and then; what cannot be read leaves the table as it was."""
        now = time.monotonic()
        if now - self._read_at < READ_SECONDS:
            return
        self._read_at = now
        try:
            self._records = read_trials(self._store)
        except StoreError:
            return
