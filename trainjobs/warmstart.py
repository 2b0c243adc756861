"""`search.warmStart`: the trials of an earlier run as observations, taken once and kept with the run.

The earlier run is hostile input: it is read with caps, line by line through the contract's model, and only JSON. What
was taken is written to `warm-start.json` at the first attempt, so that a later one learns from the same, whatever has
become of the earlier run meanwhile.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from trainjobs.outcome import DriverError
from trainjobs.proposals import Observation
from trainjobs.space import Space
from trainjobs.store import Store, open_store
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import FailureReason, Observed, StoreRef, SweepFile, TrialRecord, WarmStart
from trainsweep.contract.layout import StorageURIError, parse_uri

logger = logging.getLogger(__name__)

MAX_SWEEP_BYTES, MAX_TRIALS_BYTES, MAX_LINE_BYTES = 1 << 20, 32 << 20, 64 << 10
MAX_OBSERVATIONS = {"gp": 100}
"""What one algorithm can take; the others take as many as the document holds."""
LIMIT = 500


def load(store: Store, sweep: Sweep, opened: Callable[[StoreRef], Store] = open_store) -> list[Observation]:
    """The observations of the earlier run; empty where the sweep names none.

    Args:
        store: of this run.
        sweep: of this run.
        opened: opens the earlier run's store.

    Raises:
        DriverError: where the earlier run cannot be used, saying why; a retry would only repeat it.
    """
    wanted = sweep.spec.search.warm_start
    if wanted is None:
        return []
    text = store.get(layout.WARM_START)
    if text is None:
        taken = _take(sweep, wanted.run_uri, opened)
        store.create(layout.WARM_START, taken.to_json())
        text = store.get(layout.WARM_START) or taken.to_json()
    try:
        taken = WarmStart.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(f"{layout.WARM_START} of the run cannot be read: {error.errors()[0]['msg']}") from None
    space = sweep.proposals.space
    found = [Observation(o.parameters, o.value) for o in taken.observations if not space.why_outside(o.parameters)]
    logger.info("the search begins with %d trials of %s", len(found), taken.run_uri)
    return found


def _invalid(message: str) -> DriverError:
    return DriverError(FailureReason.INVALID_SWEEP, message)


def _take(sweep: Sweep, uri: str, opened: Callable[[StoreRef], Store]) -> WarmStart:
    where = "search.warmStart.runURI"
    try:
        location = parse_uri(uri)
    except StorageURIError as error:
        raise _invalid(f"{where}: {error}") from None
    earlier = opened(sweep.file.store.model_copy(update={"uri": location.uri}))
    _same_objective(sweep, _read(earlier, layout.SWEEP, MAX_SWEEP_BYTES, where), where)
    text = _read(earlier, layout.TRIALS, MAX_TRIALS_BYTES, where)
    found, left_out = usable(text, sweep.proposals.space)
    for why, count in sorted(left_out.items()):
        logger.info("warm start: %d trial(s) left out: %s", count, why)
    if not found:
        reasons = ", ".join(f"{count} {why}" for why, count in left_out.most_common(3)) or "the record is empty"
        raise _invalid(f"{where}: no trial of {location.uri} can be used ({reasons}): name another run or remove it")
    found.sort(key=lambda o: -o.value if sweep.mode == "Maximize" else o.value)
    name = next((n for n in MAX_OBSERVATIONS if getattr(sweep.spec.search.algorithm, n) is not None), None)
    limit = LIMIT if name is None else MAX_OBSERVATIONS[name]
    if len(found) > limit:
        logger.info("warm start: the best %d of %d trials are taken", limit, len(found))
    return WarmStart(run_uri=location.uri, observations=found[:limit])


def _read(store: Store, key: str, limit: int, where: str) -> bytes:
    parts, size = [], 0
    try:
        for part in store.stream(key):
            size += len(part)
            if size > limit:
                raise _invalid(f"{where}: {key} is larger than {limit} bytes, no run of ours writes that")
            parts.append(part)
    except FileNotFoundError:
        raise _invalid(
            f"{where}: there is no {key} below {store.location.uri}: give a run, .../<namespace>/<name>/<run>, as "
            "status.runURI of the earlier sweep says"
        ) from None
    return b"".join(parts)


def _same_objective(sweep: Sweep, text: bytes, where: str) -> None:
    try:
        objective: Any = SweepFile.model_validate_json(text).spec.get("objective")
    except ValidationError:
        raise _invalid(f"{where}: {layout.SWEEP} is none of ours: give the URI of a run") from None
    metric, mode = (objective.get(k) if isinstance(objective, dict) else None for k in ("metric", "mode"))
    if (metric, mode) != (sweep.metric, sweep.mode):
        raise _invalid(
            f"{where}: that run has the objective {str(mode)[:16]} {str(metric)[:128]}, this sweep has {sweep.mode} "
            f"{sweep.metric}: its values say nothing here"
        )


def usable(text: bytes, space: Space) -> tuple[list[Observed], Counter[str]]:
    """The trials that can teach, and why the others were left out. Parameters that this space lacks are dropped."""
    names = [p.name for p in space.search.parameters]
    records: dict[int, TrialRecord] = {}
    left_out: Counter[str] = Counter()
    for line in text.split(b"\n"):
        if not line.strip():
            continue
        try:
            if len(line) > MAX_LINE_BYTES:
                raise ValueError
            record = TrialRecord.model_validate_json(line)
        except ValueError:  # pydantic's is one, too
            left_out["unreadable"] += 1
            continue
        records[record.index] = record
    found = []
    for record in records.values():
        if record.state not in ("Succeeded", "EarlyStopped") or record.best_value is None:
            left_out["not finished well"] += 1
            continue
        missing = [name for name in names if name not in record.parameters]
        if missing:
            left_out[f"without {missing[0]}"] += 1
        elif space.why_outside(record.parameters):
            left_out["outside of this search's space"] += 1
        else:
            parameters = {name: record.parameters[name] for name in names}
            found.append(Observed(parameters=parameters, value=record.best_value))
    return found, left_out
