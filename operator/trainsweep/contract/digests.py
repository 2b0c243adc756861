"""Checksums as S3 spells them: of a stream, of parts, and of a whole joined from its parts' without reading a byte.

Hashes and CRC-32 come with Python. CRC-32C and CRC-64/NVME are computed here byte by byte, at some MB/s: good for a
small file and never for a large one, so they are only used where a manifest names nothing quicker.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

QUICKEST = ("SHA256", "SHA1", "MD5", "SHA512", "CRC32")
"""What Python computes at the speed of a disk, the strongest that every manifest carries first."""
COMPUTABLE = (*QUICKEST, "CRC32C", "CRC64NVME")
_HASHES = {"SHA256": "sha256", "SHA1": "sha1", "SHA512": "sha512", "MD5": "md5"}


@dataclass(frozen=True)
class _Crc:
    """A reflected CRC whose register starts and ends inverted."""

    bits: int
    polynomial: int

    @property
    def ones(self) -> int:
        return (1 << self.bits) - 1


_CRCS = {
    "CRC32": _Crc(32, 0xEDB88320),
    "CRC32C": _Crc(32, 0x82F63B78),
    "CRC64NVME": _Crc(64, 0x9A6C9329AC4BC9B5),
}


@lru_cache(maxsize=4)
def _table(crc: _Crc) -> tuple[int, ...]:
    rows = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (crc.polynomial if value & 1 else 0)
        rows.append(value)
    return tuple(rows)


def _continued(crc: _Crc, data: bytes, value: int) -> int:
    table, value = _table(crc), value ^ crc.ones
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ crc.ones


class Hasher:
    """One checksum over a stream."""

    def __init__(self, algorithm: str) -> None:
        if algorithm not in COMPUTABLE:
            raise ValueError(f"no own implementation of {algorithm}")
        name = _HASHES.get(algorithm)
        self._hash = hashlib.new(name, usedforsecurity=False) if name else None
        self._algorithm, self._crc = algorithm, 0

    def update(self, data: bytes) -> None:
        """More bytes."""
        if self._hash is not None:
            self._hash.update(data)
        elif self._algorithm == "CRC32":
            self._crc = zlib.crc32(data, self._crc)
        else:
            self._crc = _continued(_CRCS[self._algorithm], data, self._crc)

    def raw(self) -> bytes:
        """The digest's bytes, big-endian."""
        if self._hash is not None:
            return self._hash.digest()
        return self._crc.to_bytes(_CRCS[self._algorithm].bits // 8, "big")

    def value(self) -> str:
        """Base64 of the digest."""
        return base64.b64encode(self.raw()).decode()


def checksum_of(chunks: Iterable[bytes], algorithm: str, on_bytes: Callable[[int], None] | None = None) -> str:
    """The checksum of a stream, in bounded memory; `on_bytes` is told of every piece and may raise to give up."""
    hasher = Hasher(algorithm)
    for piece in chunks:
        hasher.update(piece)
        if on_bytes is not None:
            on_bytes(len(piece))
    return hasher.value()


@dataclass(frozen=True)
class Part:
    """One part of an object that was uploaded in parts."""

    size: int
    value: str
    """Base64 of its checksum."""


def composite_of(parts: Sequence[Part], algorithm: str) -> str:
    """The COMPOSITE checksum of parts: that of their digests one after the other, and their number.

    Raises:
        ValueError: for an algorithm without implementation, or a part's checksum that is no base64.
    """
    return f"{checksum_of([_raw(p) for p in parts], algorithm)}-{len(parts)}"


def joined(parts: Sequence[Part], algorithm: str) -> str | None:
    """The checksum of the whole object from those of its parts; None for one that cannot be joined (hashes).

    Raises:
        ValueError: for a part's checksum that is no base64.
    """
    crc = _CRCS.get(algorithm)
    if crc is None:
        return None
    whole = 0
    for part in parts:
        whole = _product(crc, _power(crc, 8 * part.size), whole) ^ int.from_bytes(_raw(part), "big")
    return base64.b64encode(whole.to_bytes(crc.bits // 8, "big")).decode()


def _raw(part: Part) -> bytes:
    try:
        return base64.b64decode(part.value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not a checksum: {part.value[:96]!r}") from error


def _product(crc: _Crc, a: int, b: int) -> int:
    """A * b modulo the polynomial, both with the lowest power in the highest bit."""
    bit, found = 1 << (crc.bits - 1), 0
    while bit:
        if a & bit:
            found ^= b
        bit >>= 1
        b = (b >> 1) ^ (crc.polynomial if b & 1 else 0)
    return found


def _power(crc: _Crc, exponent: int) -> int:
    """X to the power of `exponent`, modulo the polynomial."""
    found, square = 1 << (crc.bits - 1), 1 << (crc.bits - 2)
    while exponent:
        if exponent & 1:
            found = _product(crc, square, found)
        square = _product(crc, square, square)
        exponent >>= 1
    return found
