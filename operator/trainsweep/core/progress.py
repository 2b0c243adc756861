"""What the driver reported, copied into the status: bounded, as text where users chose the numbers."""

from __future__ import annotations

import math

from trainsweep.api.status import BestStatus, ProgressStatus, TrialsStatus
from trainsweep.contract.documents import Best, Progress, TrialCounts
from trainsweep.core.draft import Draft
from trainsweep.core.times import to_text

_FUTURE = 2**33


def record_progress(draft: Draft, progress: Progress) -> None:
    """Counts, best, heartbeat and the first report of the attempt."""
    record_trials(draft, progress.trials)
    if progress.best is not None:
        record_best(draft, progress.best)
    eta = progress.eta_seconds
    draft.set(
        progress=ProgressStatus(
            phase=progress.phase,
            heartbeat_at=_time(progress.heartbeat_at),
            eta_seconds=None if eta is None or not 0 <= eta < _FUTURE else math.ceil(eta),
            message=progress.message,
        )
    )
    attempt = draft.attempt
    if attempt is not None and attempt.first_report_at is None and progress.first_report_at is not None:
        draft.set_attempt(first_report_at=_time(progress.first_report_at))


def record_trials(draft: Draft, counts: TrialCounts) -> None:
    """Trials by state; what the spec expects is ours, not the driver's."""
    expected = draft.status.trials.expected or counts.expected
    done = counts.succeeded + counts.early_stopped + counts.failed
    draft.set(
        trials=TrialsStatus(
            expected=expected,
            succeeded=counts.succeeded,
            early_stopped=counts.early_stopped,
            failed=counts.failed,
            running=counts.running,
            pending=counts.pending,
            summary=f"{done}/{expected}",
        )
    )


def record_best(draft: Draft, best: Best) -> None:
    """The best committed report, with the URI of its checkpoint."""
    parameters = {k[:63]: _text(v)[:256] for k, v in list(best.parameters.items())[:64]}
    where = f"{draft.status.run_uri}/{best.checkpoint}" if best.checkpoint else ""
    draft.set(
        best=BestStatus(
            trial=best.trial,
            value=_text(best.value),
            step=best.step,
            parameters=parameters,
            checkpoint_uri=where[:2048],
        )
    )


def _time(seconds: float) -> str | None:
    return to_text(seconds) if 0 <= seconds < _FUTURE else None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
