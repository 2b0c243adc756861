"""How progress, settlements and statuses read on a terminal. Everything shown is text, never markup."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from trainsweep.contract.documents import Progress
from trainsweep.contract.layout import Location
from trainsweep.core.model import Settlement

WIDE = 240


def console(*, stderr: bool = False) -> Console:
    """A console that never cuts or folds a line for a pipe, and colours nothing by guessing."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=True)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, soft_wrap=True, width=WIDE)


def progress_line(progress: Progress | None, problem: str = "") -> str:
    """One line: phase, trials, best, time left."""
    if progress is None:
        return f"starting{f': {problem}' if problem else ''}"
    counts = progress.trials
    done = counts.succeeded + counts.early_stopped + counts.failed
    parts = [f"{progress.phase.value:<17}", f"{done}/{counts.expected} done", f"{counts.running} running"]
    if counts.failed:
        parts.append(f"{counts.failed} failed")
    if progress.best is not None:
        parts.append(f"best {progress.best.value:g} ({progress.best.trial}, epoch {progress.best.step})")
    if progress.eta_seconds:
        parts.append(f"about {progress.eta_seconds:.0f} s left")
    return "  ".join(parts)


def summary(location: Location, attempt: str, settled: Settlement) -> dict[str, Any]:
    """What a second look says, for a summary and for scripts."""
    best = settled.best
    return {
        "run": location.uri,
        "attempt": attempt,
        "proof": str(settled.proof),
        "required": settled.required,
        "proven": settled.verified,
        "files": settled.files,
        "bytes": settled.bytes,
        "missing": [f"{m.checkpoint}/{m.file}: {m.problem}" for m in settled.missing],
        "receipt": settled.receipt_uri,
        "digest": settled.digest,
        "best": None
        if best is None
        else {
            "trial": best.trial,
            "value": best.value,
            "epoch": best.step,
            "parameters": dict(best.parameters),
            "checkpoint": f"{location.uri}/{best.checkpoint}" if best.checkpoint else "",
        },
    }
