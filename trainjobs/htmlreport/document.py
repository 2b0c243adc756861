"""The data of a report: bounded, whatever the run holds. Everything that a chart shows is decided here, not in the page."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from trainjobs.htmlreport.axes import axis_of, place_of, short
from trainjobs.htmlreport.facts import Facts
from trainjobs.htmlreport.importance import importances, rank_correlation
from trainjobs.sweep import Sweep
from trainsweep.api.search import Parameter
from trainsweep.contract.documents import TrialCounts, TrialRecord
from trainsweep.contract.layout import parse_attempt_id
from trainsweep.contract.owed import better

ROWS = 2_000
"""Trials that a report shows one by one. The counts, the best and the costs are always those of all trials."""
CURVES, CURVE_POINTS = 80, 120
METRICS = 6
"""Other metrics that the table shows: those that most trials reported."""
FAILURE_KINDS = 20
TEXT, LONG_TEXT = 200, 1_000
FINAL = ("Succeeded", "EarlyStopped", "Failed")


def build(facts: Facts, rows: int = ROWS) -> dict[str, Any]:
    """The document that the page draws; plain JSON, no number in it is infinite."""
    sweep, records = facts.sweep, list(facts.records)
    parameters = list(sweep.spec.search.parameters)
    shown = sample(records, rows, sweep.mode)
    metrics = _metric_names(records)
    failed = [r for r in shown if r.state == "Failed"]
    long = {r.index for r in failed[:50]}
    spec = sweep.spec
    return {
        "sweep": {
            "name": sweep.file.sweep.name,
            "namespace": sweep.file.sweep.namespace,
            "run": sweep.file.sweep.run,
            "uri": sweep.file.store.uri,
            "attempt": sweep.file.attempt,
            "algorithm": _algorithm(spec),
            "entrypoint": spec.training.entrypoint,
            "workers": sweep.workers,
            "cpus": sweep.cpus,
            "gpus": sweep.gpus,
        },
        "objective": {"metric": sweep.metric, "mode": sweep.mode, "goal": spec.objective.goal},
        "state": {
            "writtenAt": facts.written_at,
            "phase": facts.phase,
            "outcome": facts.outcome,
            "reason": facts.reason,
            "message": facts.message[:LONG_TEXT],
            "eta": facts.eta_seconds,
            "proof": facts.proof,
            "require": str(spec.checkpoints.require),
            "receipt": facts.receipt_digest,
            "owed": facts.owed,
        },
        "counts": counts_of(sweep, records).model_dump(by_alias=True),
        "best": facts.best.model_dump(by_alias=True, exclude_none=True) if facts.best is not None else None,
        "cost": _cost(sweep, records, facts.written_at),
        "parameters": [axis_of(p) for p in parameters],
        "metrics": metrics,
        "sample": {"shown": len(shown), "known": len(records)},
        "improvements": _improvements(records, sweep.mode),
        "trials": [_row(r, parameters, metrics, LONG_TEXT if r.index in long else TEXT) for r in shown],
        "curves": _curves(records, sweep.mode),
        "importances": _importances(parameters, records, maximize=sweep.mode == "Maximize"),
        "reached": _reached(records, spec),
        "failures": _failures(records),
    }


def counts_of(sweep: Sweep, records: Sequence[TrialRecord]) -> TrialCounts:
    """Trials by state; what was never proposed is pending."""
    states = Counter[str](r.state for r in records)
    ended = sum(states[s] for s in FINAL)
    return TrialCounts(
        expected=sweep.count,
        succeeded=states["Succeeded"],
        early_stopped=states["EarlyStopped"],
        failed=states["Failed"],
        running=states["Running"],
        pending=max(0, sweep.count - ended - states["Running"]),
    )


def _algorithm(spec: Any) -> str:
    return next((str(name) for name, value in spec.search.algorithm if value is not None), "")


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the items, evenly taken, in their order."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)] if most > 0 else []


def sample(records: Sequence[TrialRecord], most: int, mode: str) -> list[TrialRecord]:
    """The trials that are shown one by one: the best third, failures, the newest, and an even choice of the rest."""
    if len(records) <= most:
        return list(records)
    chosen = {r.index for r in ranked(records, mode)[: most // 3]}
    chosen |= {r.index for r in spread([r for r in records if r.state == "Failed"], most // 8)}
    chosen |= {r.index for r in records[len(records) - most // 8 :]}
    rest = [r for r in records if r.index not in chosen]
    chosen |= {r.index for r in spread(rest, most - len(chosen))}
    return [r for r in records if r.index in chosen]


def ranked(records: Iterable[TrialRecord], mode: str) -> list[TrialRecord]:
    """Trials with a value, best first; the earlier one wins a tie."""
    sign = -1.0 if mode == "Maximize" else 1.0
    valued = [r for r in records if r.best_value is not None and math.isfinite(r.best_value)]
    return sorted(valued, key=lambda r: (sign * (r.best_value or 0.0), r.index))


def _metric_names(records: Sequence[TrialRecord]) -> list[str]:
    known = Counter(name for r in records for name in r.metrics)
    return [name for name, _ in sorted(known.items(), key=lambda item: (-item[1], item[0]))[:METRICS]]


def _row(record: TrialRecord, parameters: Sequence[Parameter], metrics: Sequence[str], text: int) -> list[Any]:
    """Index, state, value, its epoch, last epoch, seconds, start, end, tries repeated, attempt, parameters, metrics, error."""
    attempt = parse_attempt_id(record.attempt_id) if record.attempt_id else None
    return [
        record.index,
        record.state,
        short(record.best_value),
        record.best_step,
        record.step,
        round(record.seconds, 1),
        None if record.started_at is None else round(record.started_at),
        None if record.ended_at is None else round(record.ended_at),
        record.retries,
        attempt[0] if attempt else None,
        [place_of(p, record.parameters.get(p.name)) for p in parameters],
        [short(record.metrics.get(m), 6) for m in metrics],
        record.error[:text],
    ]


def _improvements(records: Sequence[TrialRecord], mode: str) -> list[list[float]]:
    """Each trial that was better than all before it: index and value."""
    out: list[list[float]] = []
    for record in records:
        value = record.best_value
        if value is not None and math.isfinite(value) and (not out or better(value, out[-1][1], mode)):
            out.append([record.index, value])
    return out[-1000:]


def _curves(records: Sequence[TrialRecord], mode: str) -> list[dict[str, Any]]:
    """Learning curves of the best, the running and some of the others."""
    curved = [r for r in records if len(r.history) > 1]
    first = ranked(curved, mode)[: CURVES // 2] + [r for r in curved if r.state == "Running"][: CURVES // 4]
    chosen = {r.index: r for r in first}
    for record in spread([r for r in curved if r.index not in chosen], CURVES - len(chosen)):
        chosen[record.index] = record
    return [
        {"index": r.index, "state": r.state, "points": [[s, short(v, 6)] for s, v in spread(r.history, CURVE_POINTS)]}
        for r in sorted(chosen.values(), key=lambda r: r.index)
    ]


def _importances(
    parameters: Sequence[Parameter], records: Sequence[TrialRecord], *, maximize: bool
) -> list[dict[str, Any]]:
    found = importances(parameters, records, maximize=maximize)
    by_name = {p.name: p for p in parameters}
    out = []
    for name, share in found.items():
        pairs = []
        if by_name[name].categorical is None:
            for record in records:
                place = place_of(by_name[name], record.parameters.get(name))
                if place is not None and record.best_value is not None:
                    pairs.append((float(place), record.best_value))
        out.append({"name": name, "share": short(share, 4), "trend": short(rank_correlation(pairs), 3)})
    return out


def _limit(spec: Any) -> int | None:
    """Epochs of a whole trial, where the spec says it."""
    early, stop = spec.trials.early_stopping, spec.trials.stop
    for part in (early, stop):
        if part is None:
            continue
        for _, rule in part:
            epochs = getattr(rule, "max_epochs", None)
            if epochs is not None:
                return int(epochs)
    return int(stop.max_epochs) if stop is not None and stop.max_epochs is not None else None


def _reached(records: Sequence[TrialRecord], spec: Any) -> list[list[int]]:
    """How many trials came how far: epoch, trials that reached it, and those that were stopped before the next one."""
    started = [r for r in records if r.step > 0]
    if not started:
        return []
    rungs = sorted({int(e) for r in started for e in r.rungs})
    last = max(_limit(spec) or 0, max(r.step for r in started))
    marks = sorted({1, last, *(rungs or {round(1 + (last - 1) * i / 8) for i in range(9)})})[:64]
    out = []
    for place, epoch in enumerate(marks):
        until = marks[place + 1] if place + 1 < len(marks) else math.inf
        stopped = sum(r.state == "EarlyStopped" and epoch <= r.step < until for r in started)
        out.append([epoch, sum(r.step >= epoch for r in started), stopped])
    return out


def _cost(sweep: Sweep, records: Sequence[TrialRecord], now: float) -> dict[str, Any]:
    """What the trials took, and an estimate of what early stopping saved."""
    total = sum(r.seconds for r in records)
    saved, limit = 0.0, _limit(sweep.spec)
    for record in records:
        if limit and record.state == "EarlyStopped" and 0 < record.step < limit:
            saved += record.seconds / record.step * (limit - record.step)
    starts = [r.started_at for r in records if r.started_at is not None]
    ends = [r.ended_at or now for r in records if r.started_at is not None]
    by_state: Counter[str] = Counter()
    for record in records:
        by_state[record.state] += round(record.seconds)
    return {
        "trialSeconds": round(total),
        "cpuSeconds": round(total * sweep.workers * sweep.cpus),
        "gpuSeconds": round(total * sweep.workers * sweep.gpus),
        "wallSeconds": round(max(ends) - min(starts)) if starts else 0,
        "startedAt": round(min(starts)) if starts else None,
        "savedSeconds": round(saved),
        "byState": dict(by_state),
        "repeated": sum(r.retries for r in records),
    }


def _failures(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Failed trials by their error, numbers and addresses in it aside; the most frequent first."""
    kinds: dict[str, list[TrialRecord]] = {}
    for record in records:
        if record.state == "Failed" or (record.retries and record.error):
            kinds.setdefault(re.sub(r"0x[0-9a-fA-F]+|\d+", "#", record.error[:TEXT]), []).append(record)
    common = sorted(kinds.values(), key=lambda group: (-len(group), group[0].index))
    return [
        {
            "error": group[-1].error[:LONG_TEXT] or "no message",
            "failed": sum(r.state == "Failed" for r in group),
            "repeated": sum(r.retries for r in group),
            "trials": [r.index for r in group[:30]],
        }
        for group in common[:FAILURE_KINDS]
    ]
