"""`trainsweep verify`: the operator's second look, made by hand with one's own credentials."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from trainsweep.cli import show
from trainsweep.cli.cluster import find, run_store, spec_of
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.cli.judge import look, target_of
from trainsweep.contract.documents import Receipt, SweepFile
from trainsweep.contract.layout import (
    ATTEMPTS,
    RECEIPT,
    SWEEP,
    Location,
    StorageURIError,
    attempt_id,
    parse_attempt_id,
    parse_uri,
)
from trainsweep.contract.owed import Require
from trainsweep.core.model import Proof, Settlement
from trainsweep.runtime.documents_reader import RECEIPT_BYTES, BadDocument, parse
from trainsweep.runtime.store import Absent, Store, StoreError
from trainsweep.runtime.store_s3 import open_store
from trainsweep.runtime.verify import Target

SWEEP_BYTES = 1024 * 1024


def newest_attempt(store: Store) -> str:
    """The attempt that the newest receipt is of, else the newest that started.

    Raises:
        StoreError: where nothing of an attempt is there.
    """
    try:
        return parse(Receipt, store.get(RECEIPT, RECEIPT_BYTES), RECEIPT).attempt_id
    except Absent:
        names = [name.rstrip("/").rpartition("/")[2] for name in store.folders(ATTEMPTS, 2_000)]
        known = [(found[0], name) for name in names if (found := parse_attempt_id(name))]
        if not known:
            raise Absent(f"{store.location.uri} holds no attempt: give the prefix of a run") from None
        return max(known)[1]


def target_from_store(store: Store) -> Target:
    """What to look for, from the run's own sweep file.

    Raises:
        StoreError: where it cannot be read or is none.
    """
    file = parse(SweepFile, store.get(SWEEP, SWEEP_BYTES), SWEEP)
    try:
        return target_of(file.sweep, newest_attempt(store), spec_of(file.spec))
    except ValueError as error:
        raise BadDocument(f"{SWEEP} holds no spec: {str(error)[:200]}") from None


def exit_of(settled: Settlement, require: Require) -> Exit:
    """0 for proven, 1 for a definite no, 3 for what could not be read."""
    if settled.proof is Proof.UNKNOWN:
        return Exit.UNREACHABLE
    nothing = settled.required == 0 and require is not Require.NONE
    return Exit.OK if settled.proof is Proof.PERSISTED and not nothing else Exit.FAILED


def _of_uri(uri: str, region: str | None, endpoint: str | None) -> tuple[Store, Target]:
    try:
        location: Location = parse_uri(uri)
    except StorageURIError as error:
        leave(Exit.USAGE, str(error))
    try:
        store = open_store(location, region or "", endpoint or "")
        return store, target_from_store(store)
    except (Absent, BadDocument) as error:
        leave(Exit.FAILED, f"{uri}: {error}")
    except StoreError as error:
        leave(Exit.UNREACHABLE, f"{uri}: {error}")


def _of_name(name: str, namespace: str | None, region: str | None, endpoint: str | None) -> tuple[Store, Target]:
    found = find(name, namespace)
    opened = run_store(found, region, endpoint)
    own = attempt_id(max(found.view.status.attempt, 1), found.view.uid)
    return opened.store, target_of(opened.ref, own, opened.spec)


def verify_command(
    sweep: Annotated[str, typer.Argument(help="Name of a sweep, or URI of a run (s3://… or file:///…).")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    region: Annotated[str | None, typer.Option(help="Region of the bucket; absent: as the sweep says.")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="Endpoint of the store; absent: as the sweep says.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Look again whether the checkpoints that a run owes are in the store, file by file.

    Exit codes: 0 proven, 1 missing, damaged or nothing owed, 2 wrong usage, 3 the cluster or the store cannot be read.
    """
    wants_json = as_json_or_text(output)
    if "://" in sweep:
        store, target = _of_uri(sweep, region, endpoint_url)
    else:
        store, target = _of_name(sweep, namespace, region, endpoint_url)
    settled = look(store, target, inventory=True)
    code = exit_of(settled, target.require)
    out = show.summary(store.location, target.attempt_id, settled)
    out |= {"source": settled.source, "reason": settled.reason, "message": settled.message}
    if code is Exit.FAILED and settled.proof is Proof.PERSISTED:
        out["message"] = "nothing is owed: the run has no committed checkpoint"
    if wants_json:
        typer.echo(json.dumps(out, indent=2))
    else:
        terminal = show.console()
        for key, value in out.items():
            if value not in ("", None, [], {}):
                text = json.dumps(value) if isinstance(value, dict | list) else value
                terminal.print(f"{key:<12} {text}", markup=False)
    leave(code)
