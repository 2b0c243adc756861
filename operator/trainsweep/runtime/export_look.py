"""The operator's own look at an export: the copy must be what the proven receipt says of the original, file by file.

The driver's record says only that there is something to look at: where the copy lies follows from the spec, which
checkpoint it is and what must be in it from the receipt.
"""

from __future__ import annotations

import time
from typing import Any

from trainsweep.contract.documents import Owed
from trainsweep.contract.layout import export_folder
from trainsweep.contract.owed import best_owed
from trainsweep.core.model import ExportLook, ExportState
from trainsweep.runtime.documents_reader import read_export, read_receipt
from trainsweep.runtime.store import Absent, Store, StoreError
from trainsweep.runtime.verify import Meter, Runner, Target, compare

NO_WORD = (
    "The driver left no word of an export: it ended before it had the verdict, or was stopped. The checkpoint itself is "
    "proven: copy it by hand, from status.best.checkpointURI"
)


async def look_at_export(
    store: Store, copies: Store | str, target: Target, run: Runner, meter: Meter | None = None
) -> ExportLook:
    """Looks at an attempt's export. It never raises.

    Args:
        store: the run's prefix.
        copies: the export's place, or why it must not be read.
        target: whose export.
        run: runs blocking calls.
        meter: counts what is streamed.
    """
    try:
        return await _look(store, copies, target, run, meter or Meter())
    except (StoreError, TimeoutError) as error:
        return _said(target, ExportState.UNKNOWN, str(error) or "the look took too long and is made again")
    except Exception as error:
        return _said(target, ExportState.UNKNOWN, f"{type(error).__name__}: {error}")


async def _look(store: Store, copies: Store | str, target: Target, run: Runner, meter: Meter) -> ExportLook:
    try:
        record = await run(read_export, store, target.attempt_id)
    except Absent:
        return _said(target, ExportState.ABSENT, NO_WORD)
    if record.state == "Failed":
        return _said(target, ExportState.FAILED, f"The driver could not copy: {record.message}")
    if isinstance(copies, str):
        return _said(target, ExportState.FAILED, copies)
    receipt, _, _ = await run(read_receipt, store, target.attempt_id)
    best = best_owed(((o.checkpoint, o.value) for o in receipt.owed), target.mode)
    if best is None or best != record.checkpoint:
        return _said(target, ExportState.FAILED, f"The driver copied {record.checkpoint}, the best owed one is {best}.")
    owed = next(o for o in receipt.owed if o.checkpoint == best)
    folder = export_folder(best)
    copy = Owed(trial=owed.trial, step=owed.step, value=owed.value, checkpoint=folder, files=owed.files)
    tally = await compare(copies, [copy], target.depth, run, meter)
    if tally.missing:
        names = "; ".join(f"{m.checkpoint}/{m.file}: {m.problem}" for m in tally.missing[:4])
        return _said(
            target, ExportState.FAILED, f"{len(tally.missing)} files of the copy are not as they should be: {names}"
        )
    uri = f"{copies.location.uri}/{folder}"
    return _said(target, ExportState.PROVEN, tally.advice, uri=uri, files=tally.files, bytes=tally.bytes)


def _said(target: Target, state: ExportState, message: str, **more: Any) -> ExportLook:
    return ExportLook(target.attempt_id, state, message[:1024], made_at=time.time(), **more)
