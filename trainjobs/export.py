"""`checkpoints.export`: the best proven checkpoint, copied with its manifests to where others take models from.

Made after the verdict Persisted, under the driver's own identity, for at most `cleanup.holdSeconds`. The record beside
the copy is written last: who finds it finds everything that it names. A failed export fails nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from trainjobs.outcome import DriverError
from trainjobs.patience import patiently
from trainjobs.records import Records
from trainjobs.settle import Settlement
from trainjobs.store import Store, open_store
from trainjobs.sweep import Sweep
from trainsweep.contract import layout
from trainsweep.contract.documents import ExportRecord, Owed, StoreRef
from trainsweep.contract.owed import best_owed

logger = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds for which one file's copy is tried again."""


def export(
    store: Store,
    sweep: Sweep,
    records: Records,
    settlement: Settlement,
    clock: Callable[[], float] = time.monotonic,
) -> ExportRecord | None:
    """Copies the best owed checkpoint of a settlement that is proven.

    Returns:
        The record of it, which is in the store too; None where none is asked for or nothing has a value.

    Raises:
        StoreError: where the attempt's own record of it cannot be written.
    """
    uri = sweep.file.export_uri
    best = best_owed(((o.checkpoint, o.value) for o in settlement.owed), sweep.mode)
    if not uri or best is None:
        return None
    chosen = next(o for o in settlement.owed if o.checkpoint == best)
    record = _record(store, sweep, records, chosen, uri)
    try:
        target = open_store(
            StoreRef(uri=uri, region=sweep.file.store.region, endpoint_url=sweep.file.store.endpoint_url)
        )
        _copy(store, target, chosen, record, clock() + sweep.spec.cleanup.hold_seconds, clock)
        logger.info("exported %s to %s/%s", chosen.checkpoint, uri, record.folder)
    except DriverError as error:
        record = record.model_copy(update={"state": "Failed", "message": error.message[:1000], "files": []})
        logger.error("the export to %s failed: %s", uri, error.message)
    except (OSError, ValueError) as error:
        record = record.model_copy(update={"state": "Failed", "message": str(error)[:1000], "files": []})
        logger.exception("the export to %s failed", uri)
    key = layout.attempt_key(sweep.file.attempt_id, layout.EXPORT)
    patiently("writing the record of the export", lambda: store.create(key, record.to_json()), seconds=PATIENCE)
    return record


def _record(store: Store, sweep: Sweep, records: Records, chosen: Owed, uri: str) -> ExportRecord:
    return ExportRecord(
        attempt_id=sweep.file.attempt_id,
        state="Copied",
        source_uri=store.location.uri,
        export_uri=uri,
        checkpoint=chosen.checkpoint,
        folder=layout.export_folder(chosen.checkpoint),
        trial=chosen.trial,
        step=chosen.step,
        metric=sweep.metric,
        value=chosen.value,
        parameters=next((r.parameters for r in records if r.trial == chosen.trial), {}),
        exported_at=time.time(),
        files=chosen.files,
    )


def _copy(
    store: Store, target: Store, chosen: Owed, record: ExportRecord, end: float, clock: Callable[[], float]
) -> None:
    for number, entry in enumerate(chosen.files):
        if clock() > end:
            raise TimeoutError(
                f"{number} of {len(chosen.files)} files were copied when cleanup.holdSeconds were over: raise it"
            )
        source, name = f"{chosen.checkpoint}/{entry.path}", f"{record.folder}/{entry.path}"

        def call(source: str = source, name: str = name) -> None:
            store.copy_to(source, target, name)

        patiently(f"copying {source}", call, seconds=PATIENCE)
    patiently("writing the export's record", lambda: target.put(layout.EXPORT, record.to_json()), seconds=PATIENCE)
