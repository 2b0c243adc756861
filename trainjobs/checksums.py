"""Checksums of a file in one pass over its bytes, spelled as S3 spells them.

SHA-256 and CRC-32 come with Python; CRC-32C and CRC-64/NVME are added where `awscrt` is installed: a store that
keeps one of them then proves the bytes without anybody reading them again.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable
from typing import Any

from trainsweep.contract.documents import Checksum

try:
    from awscrt import checksums as _crt  # type: ignore[import-not-found,unused-ignore]  # an extra
except ImportError:  # optional
    _crt = None


def _b64(number: int, size: int) -> str:
    return base64.b64encode(number.to_bytes(size, "big")).decode()


def checksums_of(pieces: Iterable[bytes]) -> tuple[int, list[Checksum]]:
    """Size in bytes and checksums over the whole."""
    size, sha, crc32, crc32c, crc64 = 0, hashlib.sha256(), 0, 0, 0
    crt: Any = _crt
    for piece in pieces:
        size += len(piece)
        sha.update(piece)
        crc32 = zlib.crc32(piece, crc32)
        if crt is not None:
            crc32c = crt.crc32c(piece, crc32c)
            crc64 = crt.crc64nvme(piece, crc64)
    found = [
        Checksum(algorithm="SHA256", value=base64.b64encode(sha.digest()).decode()),
        Checksum(algorithm="CRC32", value=_b64(crc32, 4)),
    ]
    if crt is not None:
        found += [
            Checksum(algorithm="CRC32C", value=_b64(crc32c, 4)),
            Checksum(algorithm="CRC64NVME", value=_b64(crc64, 8)),
        ]
    return size, found


def sha256(checksums: Iterable[Checksum]) -> str | None:
    """The SHA-256 among checksums, None where it is not there."""
    return next((c.value for c in checksums if c.algorithm == "SHA256"), None)
