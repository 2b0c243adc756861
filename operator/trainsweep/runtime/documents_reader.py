"""Documents from the store, which may be hostile: bounded in bytes and in depth before they are parsed, stripped after.

Whatever is wrong with one gives `BadDocument`; nothing else leaves here but the store's own errors.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, TypeVar

from pydantic import ValidationError

from trainsweep.contract import CONTRACT_VERSION
from trainsweep.contract.documents import Document, End, ExportRecord, Manifest, Progress, Receipt, TrialRecord
from trainsweep.contract.layout import END, EXPORT, PROGRESS, RECEIPT, START, TRIALS, attempt_key
from trainsweep.runtime.store import Store, StoreError

PROGRESS_BYTES = 4 * 1024
END_BYTES = 16 * 1024
START_BYTES = 4 * 1024
RECEIPT_BYTES = 8 * 1024 * 1024
MANIFEST_BYTES = 4 * 1024 * 1024
SNAPSHOT_BYTES = 8 * 1024 * 1024
TRIALS_BYTES = 32 * 1024 * 1024
DEPTH = 32
_MENDED = re.compile(r"receipt-(\d{1,3})\.json")
_STRUCTURE = re.compile(rb'["\[\]{}]')
_STRING_END = re.compile(rb'(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

D = TypeVar("D", bound=Document)


class BadDocument(StoreError):  # noqa: N818  # named for what it says
    """It is there and is not what it should be; the text says why."""


def check_depth(data: bytes, limit: int = DEPTH) -> None:
    """Refuses nesting deeper than `limit` by one scan without recursion, before any parser sees the text.

    Raises:
        BadDocument: where it is deeper.
    """
    depth, at = 0, 0
    while (found := _STRUCTURE.search(data, at)) is not None:
        mark, at = found.group(), found.end()
        if mark == b'"':
            end = _STRING_END.match(data, at)
            if end is None:
                return  # an open string: the parser says so
            at = end.end()
        elif mark in b"[{":
            depth += 1
            if depth > limit:
                raise BadDocument(f"nested deeper than {limit}")
        else:
            depth -= 1


def clean(value: Any, longest: int = 8192) -> Any:
    """The same JSON value with its strings cut and without control and direction characters."""
    if isinstance(value, str):
        return _CONTROL.sub("", value[:longest])
    if isinstance(value, list):
        return [clean(v, longest) for v in value]
    if isinstance(value, dict):
        return {_CONTROL.sub("", str(k)[:1024]): clean(v, longest) for k, v in value.items()}
    return value


def parse_json(data: bytes, what: str) -> Any:
    """JSON of bounded depth, cleaned.

    Raises:
        BadDocument: with `what` in its text.
    """
    try:
        check_depth(data)
        return clean(json.loads(data))
    except BadDocument as error:
        raise BadDocument(f"{what} is {error}") from None
    except (ValueError, RecursionError) as error:
        raise BadDocument(f"{what} is no JSON: {str(error)[:200]}") from None


def parse(model: type[D], data: bytes, what: str) -> D:
    """A document of a contract version that we speak.

    Raises:
        BadDocument: naming the first field that does not fit.
    """
    raw = parse_json(data, what)
    version = raw.get("contractVersion", CONTRACT_VERSION) if isinstance(raw, dict) else None
    if version != CONTRACT_VERSION:
        raise BadDocument(f"{what} has contract version {version!r}, this operator speaks {CONTRACT_VERSION}")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(p) for p in first["loc"])
        raise BadDocument(f"{what} is invalid at {where}: {first['msg']}"[:500]) from None


def read_progress(store: Store) -> Progress:
    """The driver's heartbeat."""
    return parse(Progress, store.get(PROGRESS, PROGRESS_BYTES), PROGRESS)


def read_start(store: Store, attempt_id: str) -> bool:
    """Whether a driver of an attempt has begun: it left its marker, which is all that is asked of it."""
    return bool(store.get(attempt_key(attempt_id, START), START_BYTES))


def read_end(store: Store, attempt_id: str) -> End:
    """The driver's last word on an attempt."""
    key = attempt_key(attempt_id, END)
    found = parse(End, store.get(key, END_BYTES), key)
    if found.attempt_id != attempt_id:
        raise BadDocument(f"{key} speaks of attempt {found.attempt_id}")
    return found


def read_export(store: Store, attempt_id: str) -> ExportRecord:
    """The driver's word on an attempt's export."""
    key = attempt_key(attempt_id, EXPORT)
    found = parse(ExportRecord, store.get(key, RECEIPT_BYTES), key)
    if found.attempt_id != attempt_id:
        raise BadDocument(f"{key} speaks of attempt {found.attempt_id}")
    return found


def receipt_key(store: Store, attempt_id: str) -> str:
    """Key of an attempt's newest receipt: a mended one lies beside the one before, its sequence in its name."""
    folder = attempt_key(attempt_id, "")
    newest, best = attempt_key(attempt_id, RECEIPT), 0
    for entry in store.entries(folder.rstrip("/")):
        found = _MENDED.fullmatch(entry.key.removeprefix(folder))
        if found is not None and int(found[1]) > best:
            newest, best = entry.key, int(found[1])
    return newest


def read_receipt(store: Store, attempt_id: str) -> tuple[Receipt, str, str]:
    """An attempt's newest receipt, the hex SHA-256 of its exact bytes, and its key."""
    key = receipt_key(store, attempt_id)
    data = store.get(key, RECEIPT_BYTES)
    return parse(Receipt, data, key), hashlib.sha256(data).hexdigest(), key


def read_manifest(store: Store, key: str) -> Manifest:
    """The manifest that a checkpoint carries."""
    return parse(Manifest, store.get(key, MANIFEST_BYTES), key)


def read_trials(store: Store) -> list[TrialRecord]:
    """The trials, each as its last line says; a torn last line is left out.

    Raises:
        BadDocument: for a bad line that is not the last.
    """
    lines = store.get(TRIALS, TRIALS_BYTES).split(b"\n")
    records: dict[int, TrialRecord] = {}
    torn = len(lines) - 1 if lines[-1] else -1
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            record = parse(TrialRecord, line, f"{TRIALS} line {number + 1}")
        except BadDocument:
            if number == torn:
                continue
            raise
        records[record.index] = record
    return [records[i] for i in sorted(records)]
