"""Depth: checksums of parts, archives, lifecycle rules, broken reads. What no double shows, from a client in memory."""

from __future__ import annotations

import io
from typing import Any

import pytest
from botocore.response import StreamingBody

from tests.unit.runtime.runs import entry
from tests.unit.runtime.stub_s3 import PREFIX, StubS3, refusal
from trainsweep.contract.digests import Part, checksum_of, composite_of
from trainsweep.contract.documents import FileEntry
from trainsweep.runtime import store_s3
from trainsweep.runtime.documents_reader import BadDocument
from trainsweep.runtime.filecheck import check_file
from trainsweep.runtime.store import Archived, Denied, Unavailable
from trainsweep.runtime.store_s3 import ALGORITHMS

PIECES = [b"a" * 1000, b"b" * 1000, b"c" * 7]
DATA = b"".join(PIECES)


def manifest(data: bytes, *algorithms: str, **given: str) -> FileEntry:
    sums = {a: checksum_of([data], a) for a in algorithms} | given
    return FileEntry.model_validate(
        {"path": "x", "size": len(data), "checksums": [{"algorithm": a, "value": v} for a, v in sums.items()]}
    )


def in_parts(algorithm: str, **changes: Any) -> StubS3:
    """An object in three parts, with the composite checksum that S3 would keep."""
    client = StubS3(**changes)
    sums = [checksum_of([p], algorithm) for p in PIECES]
    parts = [Part(len(p), s) for p, s in zip(PIECES, sums, strict=True)]
    told = {f"Checksum{algorithm}": composite_of(parts, algorithm), "ChecksumType": "COMPOSITE", "ETag": '"x-3"'}
    client.put("x", DATA, **told)
    client.parts[f"{PREFIX}/x"] = [{"Size": p.size, f"Checksum{algorithm}": p.value} for p in parts]
    return client


def look(client: StubS3, wanted: FileEntry) -> tuple[str, int, set[str]]:
    client.requests.clear()
    read: list[int] = []
    problem = check_file(client.store(), "x", wanted, read.append).problem
    return problem, sum(read), {what for what, _ in client.requests}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_whole_checksum_of_any_algorithm_is_compared_without_a_read(algorithm: str) -> None:
    client = StubS3()
    client.put("x", DATA, **{f"Checksum{algorithm}": "AAAAAAAAAAA=", "ChecksumType": "FULL_OBJECT"})
    assert look(client, manifest(DATA, **{algorithm: "AAAAAAAAAAA="})) == ("", 0, {"HEAD"})
    assert look(client, manifest(DATA, **{algorithm: "BAAAAAAAAAA="})) == ("WrongChecksum", 0, {"HEAD"})


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME"])
@pytest.mark.parametrize("attributes", [True, False])
def test_a_composite_of_crcs_is_joined_from_its_parts(algorithm: str, attributes: bool) -> None:
    client = in_parts(algorithm, attributes=attributes)
    asked = {"HEAD", "ATTRIBUTES"}
    assert look(client, manifest(DATA, "SHA256", algorithm)) == ("", 0, asked)
    other = b"Z" + DATA[1:]
    assert look(client, manifest(other, "SHA256", algorithm)) == ("WrongChecksum", 0, asked)


@pytest.mark.parametrize("algorithm", ["SHA1", "SHA256"])
def test_a_composite_of_hashes_is_read(algorithm: str) -> None:
    client = in_parts(algorithm)
    assert look(client, manifest(DATA, "SHA256", "CRC32"))[:2] == ("", len(DATA))
    assert look(client, manifest(b"Z" + DATA[1:], "SHA256"))[0] == "WrongChecksum"


def test_parts_that_are_not_those_of_the_composite_are_not_believed() -> None:
    client = in_parts("CRC32")
    lie = [checksum_of([b"Z" + p[1:]], "CRC32") for p in PIECES]
    client.parts[f"{PREFIX}/x"] = [{"Size": len(p), "ChecksumCRC32": s} for p, s in zip(PIECES, lie, strict=True)]
    wanted = manifest(b"".join(b"Z" + p[1:] for p in PIECES), "SHA256", "CRC32")
    assert look(client, wanted)[:2] == ("WrongChecksum", len(DATA))
    client.parts[f"{PREFIX}/x"] = client.parts[f"{PREFIX}/x"][:2]
    assert look(client, manifest(DATA, "SHA256", "CRC32"))[:2] == ("", len(DATA))
    client.parts[f"{PREFIX}/x"] = [{"Size": len(p), "ChecksumCRC32": "%%"} for p in PIECES]
    assert look(client, manifest(DATA, "SHA256", "CRC32"))[:2] == ("", len(DATA))


def test_many_parts_are_not_asked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_s3, "PARTS_BY_HEAD", 2)
    assert look(in_parts("CRC32", attributes=False), manifest(DATA, "SHA256", "CRC32"))[:2] == ("", len(DATA))


def test_a_store_without_checksums_is_read_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_s3, "RANGE", 300)
    client = StubS3()
    client.put("x", DATA)
    assert look(client, manifest(DATA, "SHA256"))[:2] == ("", len(DATA))
    assert sum(what == "GET" for what, _ in client.requests) == -(-len(DATA) // 300)


@pytest.mark.parametrize("algorithm", ["CRC32C", "CRC64NVME", "MD5", "SHA512"])
def test_a_manifest_that_names_only_one_is_compared_by_that(algorithm: str) -> None:
    client = StubS3()
    client.put("x", DATA, ChecksumSHA256="AAAA", ChecksumType="FULL_OBJECT")
    assert look(client, manifest(DATA, algorithm))[:2] == ("", len(DATA))
    assert look(client, manifest(b"Z" + DATA[1:], algorithm))[0] == "WrongChecksum"


@pytest.mark.parametrize(("given", "words"), [({}, "no checksum"), ({"XXHASH3": "AAAAAAAA"}, "only XXHASH3")])
def test_what_cannot_be_compared_is_said_and_never_proven(given: dict[str, str], words: str) -> None:
    client = StubS3()
    client.put("x", DATA)
    with pytest.raises(BadDocument, match=words):
        look(client, manifest(DATA, **given))


# ------------------------------------------------------------------ archives, rules, broken reads


@pytest.mark.parametrize(
    ("told", "readable"),
    [
        ({"StorageClass": "GLACIER"}, False),
        ({"StorageClass": "DEEP_ARCHIVE"}, False),
        ({"StorageClass": "GLACIER", "Restore": 'ongoing-request="true"'}, False),
        ({"StorageClass": "GLACIER", "Restore": 'ongoing-request="false", expiry-date="Fri, 1 Jan 2027"'}, True),
        ({"StorageClass": "INTELLIGENT_TIERING", "ArchiveStatus": "ARCHIVE_ACCESS"}, False),
        ({"StorageClass": "GLACIER_IR"}, True),
        ({"StorageClass": "STANDARD_IA"}, True),
    ],
)
def test_an_archived_object_answers_head_and_is_not_readable(told: dict[str, str], readable: bool) -> None:
    client = StubS3()
    client.put("x", DATA, **told)
    if readable:
        assert look(client, manifest(DATA, "SHA256"))[0] == ""
        return
    with pytest.raises(Archived, match="restore it"):
        look(client, manifest(DATA, "SHA256"))


def test_the_rule_that_expires_a_key_is_named() -> None:
    expiration = {"Days": 30}
    client = StubS3(
        rules=[
            {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": expiration},
            {"ID": "uploads", "Status": "Enabled", "Filter": {"Prefix": ""}, "AbortIncompleteMultipartUpload": {}},
            {"ID": "markers", "Status": "Enabled", "Expiration": {"ExpiredObjectDeleteMarker": True}},
            {"ID": "other", "Status": "Enabled", "Filter": {"Prefix": "logs/"}, "Expiration": expiration},
            {"ID": "sweeps", "Status": "Enabled", "Filter": {"And": {"Prefix": "team/"}}, "Expiration": expiration},
        ]
    )
    assert "'sweeps'" in client.store().advice("x")
    client.rules = client.rules[:4]
    assert client.store().advice("x") == ""


def test_a_file_that_will_be_expired_is_said_with_its_rule() -> None:
    client = StubS3()
    client.put("x", DATA, Expiration='expiry-date="Fri, 23 Dec 2027", rule-id="sweeps"')
    found = check_file(client.store(), "x", manifest(DATA, "SHA256"), lambda _: None)
    assert (found.problem, "sweeps" in found.expires) == ("", True)


class Breaking(io.BytesIO):
    """A connection that is cut after some bytes."""

    def __init__(self, data: bytes, after: int) -> None:
        super().__init__(data)
        self.left = after

    def read(self, size: int | None = -1) -> bytes:
        if self.left <= 0:
            raise ConnectionResetError("cut")
        piece = super().read(min(self.left, size if size and size > 0 else self.left))
        self.left -= len(piece)
        return piece


@pytest.mark.parametrize(("cuts", "proven"), [(1, True), (3, True), (4, False)])
def test_a_read_that_breaks_goes_on_where_it_was_a_few_times(cuts: int, proven: bool) -> None:
    client = StubS3()
    client.put("x", DATA)
    real, left = client.get_object, [cuts]

    def breaking(**request: Any) -> dict[str, Any]:
        answer = real(**request)
        if left[0]:
            left[0] -= 1
            whole = answer["Body"].read()
            answer["Body"] = StreamingBody(Breaking(whole, 100), len(whole))  # type: ignore[arg-type]  # a double, or a union that the stub leaves out
        return answer

    client.get_object = breaking  # type: ignore[method-assign]  # a fault is put in
    if proven:
        assert look(client, manifest(DATA, "SHA256"))[:2] == ("", len(DATA))
        return
    with pytest.raises(Unavailable, match="did not answer"):
        look(client, manifest(DATA, "SHA256"))


def test_a_head_that_is_denied_where_a_read_is_not_is_still_compared() -> None:
    client = StubS3()
    client.put("x", DATA)

    def denied(**_: Any) -> dict[str, Any]:
        raise refusal("403", 403, "HeadObject", "Forbidden")

    client.head_object = denied  # type: ignore[method-assign]  # a fault is put in
    assert look(client, manifest(DATA, "SHA256"))[:2] == ("", len(DATA))
    client.refuse = refusal("AccessDenied", 403)
    with pytest.raises(Denied):
        look(client, manifest(DATA, "SHA256"))


def test_a_manifest_entry_of_a_newer_writer_is_no_fault() -> None:
    made = FileEntry.model_validate(
        {
            **entry("x", DATA),
            "checksums": [*entry("x", DATA)["checksums"], {"algorithm": "BLAKE3", "value": "A" * 43 + "="}],
        }
    )
    client = StubS3()
    client.put("x", DATA)
    assert look(client, made)[0] == ""
