"""`trainsweep download`: a checkpoint to this machine, every byte compared with the receipt on its way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer

from trainsweep.cli.cluster import find, run_store
from trainsweep.cli.exits import Exit, as_json_or_text, leave
from trainsweep.contract.digests import COMPUTABLE, Hasher
from trainsweep.contract.documents import FileEntry, Owed, Receipt
from trainsweep.contract.layout import attempt_id
from trainsweep.runtime.documents_reader import BadDocument, read_receipt
from trainsweep.runtime.store import Absent, Store, StoreError


class DamagedError(Exception):
    """A file that is not what the receipt says."""


def chosen(receipt: Receipt, which: str) -> Owed | None:
    """The owed checkpoint of the best trial, or of the trial that is named; the newest of several."""
    if which == "best":
        if receipt.best is not None and receipt.best.checkpoint:
            return next((o for o in receipt.owed if o.checkpoint == receipt.best.checkpoint), None)
        sign = 1 if receipt.mode == "Maximize" else -1
        return max(
            (o for o in receipt.owed if o.value is not None), key=lambda o: sign * (o.value or 0.0), default=None
        )
    found = [o for o in receipt.owed if o.trial == which]
    return max(found, key=lambda o: o.step) if found else None


def fetch(store: Store, owed: Owed, entry: FileEntry, folder: Path) -> int:
    """One file, into the folder; its size.

    Raises:
        DamagedError: where size or checksum differ from the receipt, or the name would leave the folder.
        StoreError: where it cannot be read.
    """
    target = (folder / entry.path).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise DamagedError(f"{entry.path} would lie outside of {folder}")
    target.parent.mkdir(parents=True, exist_ok=True)
    wanted = min(
        (c for c in entry.checksums if c.algorithm in COMPUTABLE),
        key=lambda c: COMPUTABLE.index(c.algorithm),
        default=None,
    )
    if wanted is None:
        raise DamagedError(f"{entry.path} has no checksum in the receipt that can be computed here")
    hasher, size = Hasher(wanted.algorithm), 0
    with target.open("wb") as file:
        for piece in store.chunks(f"{owed.checkpoint}/{entry.path}"):
            size += len(piece)
            file.write(piece)
            hasher.update(piece)
    if size != entry.size:
        raise DamagedError(f"{entry.path} has {size} bytes, the receipt says {entry.size}")
    if hasher.value() != wanted.value:
        raise DamagedError(f"{entry.path}: its {wanted.algorithm} is not the receipt's")
    return size


def download_command(
    name: Annotated[str, typer.Argument(help="Name of the sweep.")],
    which: Annotated[str, typer.Argument(help="`best`, or the name of a trial.")],
    directory: Annotated[Path, typer.Argument(help="Folder to make; it must not exist, or be empty.")],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Absent: that of the context.")] = None,
    region: Annotated[str | None, typer.Option(help="Region of the bucket; absent: as the sweep says.")] = None,
    endpoint_url: Annotated[str | None, typer.Option(help="Endpoint of the store; absent: as the sweep says.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="text or json.")] = "text",
) -> None:
    """Download a checkpoint that the receipt holds, verified against it; nothing is left where it does not fit.

    Exit codes: 0 downloaded and verified, 1 not in the receipt, missing or damaged, 2 wrong usage, 3 the cluster or the
    store cannot be reached.
    """
    wants_json = as_json_or_text(output)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise typer.BadParameter("exists and is not empty", param_hint="DIRECTORY")
    found = find(name, namespace)
    opened = run_store(found, region, endpoint_url)
    try:
        receipt, digest, key = read_receipt(opened.store, attempt_id(max(found.view.status.attempt, 1), found.view.uid))
    except (Absent, BadDocument) as error:
        leave(Exit.FAILED, f"there is no receipt to verify against: {error}")
    except StoreError as error:
        leave(Exit.UNREACHABLE, str(error))
    owed = chosen(receipt, which)
    if owed is None:
        names = ", ".join(sorted({o.trial for o in receipt.owed})) or "none"
        leave(Exit.FAILED, f"the receipt {key} holds no checkpoint of {which}; it holds those of: {names}")
    part = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        size = sum(fetch(opened.store, owed, entry, part) for entry in owed.files)
        if directory.exists():
            directory.rmdir()
        part.rename(directory)
    except (DamagedError, Absent) as error:
        leave(Exit.FAILED, str(error))
    except StoreError as error:
        leave(Exit.UNREACHABLE, str(error))
    except OSError as error:
        leave(Exit.FAILED, f"{directory}: {error}")
    finally:
        shutil.rmtree(part, ignore_errors=True)
    told = {
        "trial": owed.trial,
        "epoch": owed.step,
        "value": owed.value,
        "checkpoint": f"{opened.store.location.uri}/{owed.checkpoint}",
        "files": len(owed.files),
        "bytes": size,
        "receipt": digest,
        "directory": str(directory),
    }
    if wants_json:
        typer.echo(json.dumps(told, indent=2))
    else:
        typer.echo(
            f"{owed.trial}, epoch {owed.step}: {len(owed.files)} file(s), {size} bytes in {directory}, as receipt "
            f"{digest[:12]} says"
        )
