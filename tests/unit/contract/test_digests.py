from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainsweep.contract.digests import COMPUTABLE, Hasher, Part, checksum_of, composite_of, joined

CRCS = ("CRC32", "CRC32C", "CRC64NVME")
# The check values of the CRC catalogues, and of the hashes' standards.
CHECK = {
    "CRC32": "cbf43926",
    "CRC32C": "e3069283",
    "CRC64NVME": "ae8b14860a799888",
    "SHA1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "MD5": "25f9e794323b453885f5181f1b624d0b",
    "SHA256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}


@pytest.mark.parametrize("algorithm", COMPUTABLE)
def test_check_values(algorithm: str) -> None:
    found = base64.b64decode(checksum_of([b"1234", b"", b"56789"], algorithm)).hex()
    assert found == CHECK.get(algorithm, found)
    assert found == base64.b64decode(checksum_of([b"123456789"], algorithm)).hex()
    assert checksum_of([b"123456788"], algorithm) != checksum_of([b"123456789"], algorithm)


@pytest.mark.parametrize("algorithm", ["XXHASH3", "", "crc32"])
def test_an_algorithm_without_implementation_is_said(algorithm: str) -> None:
    with pytest.raises(ValueError, match="no own implementation"):
        Hasher(algorithm)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=400), max_size=6), st.sampled_from(CRCS))
def test_a_whole_is_joined_from_its_parts_without_its_bytes(pieces: list[bytes], algorithm: str) -> None:
    parts = [Part(len(p), checksum_of([p], algorithm)) for p in pieces]
    assert joined(parts, algorithm) == checksum_of(pieces, algorithm)


def test_parts_of_real_size_are_joined() -> None:
    data = bytes(range(251)) * (3 * 5_242_880 // 251) + b"a tail that fills no part"
    pieces = [data[i : i + 5_242_880] for i in range(0, len(data), 5_242_880)]
    parts = [Part(len(p), checksum_of([p], "CRC32")) for p in pieces]
    assert joined(parts, "CRC32") == checksum_of([data], "CRC32")
    assert joined([parts[1], parts[0], *parts[2:]], "CRC32") != checksum_of([data], "CRC32")


def test_hashes_cannot_be_joined_and_bad_base64_is_said() -> None:
    assert joined([Part(1, "AA==")], "SHA256") is None
    with pytest.raises(ValueError, match="not a checksum"):
        joined([Part(1, "%%")], "CRC32")


def test_a_composite_is_the_checksum_of_the_digests() -> None:
    one, two = checksum_of([b"a" * 10], "SHA256"), checksum_of([b"b"], "SHA256")
    raw = base64.b64decode(one) + base64.b64decode(two)
    assert composite_of([Part(10, one), Part(1, two)], "SHA256") == checksum_of([raw], "SHA256") + "-2"
