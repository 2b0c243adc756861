"""`trainsweep report`: fetches a run's report.html, or makes it anew from the run's own documents."""

from __future__ import annotations

import tempfile
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from trainsweep.cli.cluster import find, run_store
from trainsweep.cli.exits import Exit, leave
from trainsweep.contract.documents import SweepFile
from trainsweep.contract.layout import REPORT, SWEEP, StorageURIError, parse_uri
from trainsweep.runtime.documents_reader import read_end, read_progress, read_receipt, read_trials
from trainsweep.runtime.store import Absent, Store, StoreError
from trainsweep.runtime.store_s3 import open_store

T = TypeVar("T")

REPORT_BYTES = 8 * 2**20
SWEEP_BYTES = 2**20


def _maybe(read: Callable[[], T]) -> T | None:
    """What can be read; a report without it says less."""
    try:
        return read()
    except StoreError:
        return None


def rebuilt(store: Store, now: float) -> bytes:
    """The report of a run, made here from what lies in its store.

    Raises:
        StoreError: where the sweep file or the record of trials cannot be read.
        ValueError: where the sweep file holds no sweep.
    """
    # Of the driver only what needs neither Ray nor torch; it comes with this package.
    from trainjobs.htmlreport import Facts, render
    from trainjobs.outcome import DriverError
    from trainjobs.sweep import parse

    text = store.get(SWEEP, SWEEP_BYTES)
    try:
        sweep = parse(text)
    except DriverError as error:
        raise ValueError(f"{SWEEP}: {error.message}") from None
    own = SweepFile.model_validate_json(text).attempt_id
    progress, end = _maybe(lambda: read_progress(store)), _maybe(lambda: read_end(store, own))
    receipt, digest, _ = _maybe(lambda: read_receipt(store, own)) or (None, "", "")
    proof = "Persisted" if end is not None and end.verified else ""
    return render(
        Facts(
            sweep=sweep,
            records=read_trials(store),
            written_at=now,
            best=(receipt.best if receipt is not None else None) or (progress.best if progress is not None else None),
            phase=progress.phase.value if progress is not None else "",
            outcome=end.outcome.value if end is not None else "",
            reason=end.reason if end is not None else "",
            message=end.message if end is not None else "",
            proof=proof,
            receipt_digest=digest,
            owed=len(receipt.owed) if receipt is not None else None,
        )
    )


def _open(target: str, namespace: str | None, region: str | None, endpoint: str | None) -> tuple[Store, str]:
    """The store that a URI, a folder or a sweep's name means, and a name for the file."""
    if "://" in target or Path(target).is_dir():
        uri = target if "://" in target else f"file://{Path(target).resolve()}"
        try:
            location = parse_uri(uri.removesuffix(f"/{REPORT}"))
            return open_store(location, region or "", endpoint or ""), location.prefix.split("/")[-2:][0]
        except StorageURIError as error:
            leave(Exit.USAGE, str(error))
        except StoreError as error:
            leave(Exit.UNREACHABLE, f"{uri}: {error}")
    return run_store(find(target, namespace), region, endpoint).store, target


def report_command(
    target: Annotated[str, typer.Argument(help="Name of a sweep, URI of a run (s3://… or file:///…), or its folder.")],
    save: Annotated[
        Path | None, typer.Option("--save", help="File to write; absent: one in the temporary folder.")
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make it anew from trials.jsonl.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    region: Annotated[str | None, typer.Option(help="Region of the bucket; absent: as the sweep says.")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="Endpoint of the store; absent: as the sweep says.")] = None,
) -> None:
    """Fetch a run's report.html. Where the run has none, or with --rebuild, it is made here from the run's record.

    Exit codes: 0 written, 1 there is no such run, 2 wrong usage, 3 the cluster or the store cannot be reached.
    """
    store, name = _open(target, namespace, region, endpoint_url)
    try:
        page = rebuilt(store, time.time()) if rebuild else _fetched(store)
    except Absent as error:
        leave(Exit.FAILED, f"{store.location.uri}: {error}: give the prefix of a run, the folder that holds {SWEEP}")
    except ValueError as error:
        leave(Exit.FAILED, f"{store.location.uri}: {error}")
    except StoreError as error:
        leave(Exit.UNREACHABLE, f"{store.location.uri}: {error}")
    file = save or Path(tempfile.mkdtemp(prefix="trainsweep-")) / f"{name}-{REPORT}"
    try:
        file.write_bytes(page)
    except OSError as error:
        leave(Exit.USAGE, f"--save {file}: {error.strerror}")
    typer.echo(str(file))
    if show and not webbrowser.open(file.resolve().as_uri()):
        leave(Exit.FAILED, "no browser was found: open the file by hand")


def _fetched(store: Store) -> bytes:
    try:
        return store.get(REPORT, REPORT_BYTES)
    except Absent:
        return rebuilt(store, time.time())
