"""One file at depth Checksums: by what the store keeps where that suffices, else by its bytes.

In this order: a checksum of the whole object that the manifest has too; those of its parts, joined to one of the
whole; the bytes themselves, read range by range in bounded memory and compared with the manifest's own digest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainsweep.contract.digests import COMPUTABLE, checksum_of, composite_of, joined
from trainsweep.contract.documents import FileEntry
from trainsweep.core import settlement
from trainsweep.runtime.documents_reader import BadDocument
from trainsweep.runtime.store import Absent, Info, Store


@dataclass(frozen=True)
class Checked:
    """What became of one file."""

    problem: str = ""
    """"" where it is as it should be."""
    expires: str = ""
    """The store's words on the lifecycle rule that will remove it."""


def check_file(store: Store, key: str, entry: FileEntry, on_bytes: Callable[[int], None]) -> Checked:
    """Whether one file is as its manifest says.

    Args:
        store: where it lies.
        key: its key.
        entry: what it must be.
        on_bytes: told of every piece that had to be read; may raise to give up.

    Raises:
        BadDocument: where the manifest has no checksum that could be compared.
        StoreError: where it could not be read.
    """
    try:
        info = store.head(key)
        if info.size != entry.size:
            return Checked("WrongSize")
        agrees = settlement.stored_checksum_agrees(entry, info.checksums)
        if agrees is None:
            agrees = _parts_agree(store, key, entry, info)
        if agrees is None:
            agrees = _bytes_agree(store, key, entry, on_bytes)
    except Absent:
        return Checked("Absent")
    return Checked("" if agrees else "WrongChecksum", info.expires)


def _parts_agree(store: Store, key: str, entry: FileEntry, info: Info) -> bool | None:
    """Whether the parts' checksums, joined, are the manifest's; None where they cannot be had or joined.

    The parts must add up to the file's size and to the composite that the store keeps, or they are not believed.
    """
    claimed = {c.algorithm: c.value for c in entry.checksums}
    for composite in info.composites:
        if composite.algorithm not in claimed or joined([], composite.algorithm) is None:
            continue
        parts = store.parts(key, composite.algorithm)
        try:
            if (
                parts
                and sum(p.size for p in parts) == entry.size
                and composite_of(parts, composite.algorithm) == composite.value
            ):
                return joined(parts, composite.algorithm) == claimed[composite.algorithm]
        except ValueError:
            continue
    return None


def _bytes_agree(store: Store, key: str, entry: FileEntry, on_bytes: Callable[[int], None]) -> bool:
    claimed = {c.algorithm: c.value for c in entry.checksums}
    # COMPUTABLE is in the order of preference: strong and quick first.
    algorithm = next((a for a in COMPUTABLE if a in claimed), None)
    if algorithm is None:
        known = ", ".join(sorted(claimed))
        raise BadDocument(
            f"{key} has no checksum to compare with"
            + (f" (only {known}, which the store does not keep)" if known else "")
            + ": save by trainjobs.checkpoint, or set checkpoints.verify.depth to Sizes"
        )
    return checksum_of(store.chunks(key), algorithm, on_bytes) == claimed[algorithm]
