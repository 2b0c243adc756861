"""What the driver and the operator rely on a store for, as one suite: against the double and against a real S3 server.

A test module imports `*` and has a fixture `server`. Where the double cannot do what S3 does, `Server` says so and the test
asks for less there; no test is skipped.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config

from trainjobs.checksums import checksums_of
from trainjobs.outcome import DriverError
from trainjobs.s3copy import copy_object
from trainjobs.s3store import S3Store as Writer
from trainsweep.contract.digests import checksum_of
from trainsweep.contract.documents import FileEntry
from trainsweep.contract.layout import Location
from trainsweep.runtime import store_s3
from trainsweep.runtime.filecheck import check_file
from trainsweep.runtime.store import Absent, Denied, StoreError, Unavailable
from trainsweep.runtime.store_s3 import S3Store, open_store

MIB = 1024 * 1024
REGION = "us-east-1"


@dataclass
class Server:
    """A server, and where it is less than S3."""

    endpoint: str
    client: Any
    authenticates: bool
    """Knows who asks, and refuses; the double lets everybody in."""
    keeps_checksums: bool
    """Says checksums in HEAD."""
    tells_parts: bool
    """Says checksums of parts."""
    dates_uploads: bool
    """Says when an upload was begun."""

    def bucket(self, **options: Any) -> str:
        """A fresh bucket."""
        name = f"b-{uuid.uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=name, **options)
        return name


@dataclass
class Place:
    """One run's prefix, as the driver writes it and as the operator reads it."""

    server: Server
    location: Location
    writer: Writer
    reader: S3Store

    def put(self, key: str, data: bytes, **options: Any) -> None:
        """Writes with options that no store of ours sets."""
        self.server.client.put_object(
            Bucket=self.location.bucket, Key=f"{self.location.prefix}/{key}", Body=data, **options
        )

    def multipart(self, key: str, parts: list[bytes], **options: Any) -> None:
        """Uploads in parts, each with its checksum, as boto3's own transfers do."""
        where = {"Bucket": self.location.bucket, "Key": f"{self.location.prefix}/{key}"}
        client = self.server.client
        upload = client.create_multipart_upload(**where, **options)["UploadId"]
        done = []
        algorithm = options.get("ChecksumAlgorithm")
        for number, data in enumerate(parts, 1):
            extra = {"ChecksumAlgorithm": algorithm} if algorithm else {}
            answer = client.upload_part(**where, UploadId=upload, PartNumber=number, Body=data, **extra)
            told = {"PartNumber": number, "ETag": answer["ETag"]}
            if algorithm and answer.get(f"Checksum{algorithm}"):
                told[f"Checksum{algorithm}"] = answer[f"Checksum{algorithm}"]
            done.append(told)
        client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": done})


def client_of(endpoint: str, key: str, secret: str) -> Any:
    """A plain client for the tests' own writes."""
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 2}),
    )


@pytest.fixture
def place(server: Server) -> Place:
    """A run's prefix in a fresh bucket."""
    location = Location("s3", server.bucket(), "team/team-a/digits/v1-0123456789abcdef")
    reader = open_store(location, REGION, server.endpoint)
    assert isinstance(reader, S3Store)
    return Place(server, location, Writer(location, REGION, server.endpoint), reader)


def entry(data: bytes, *algorithms: str) -> FileEntry:
    """What a manifest says of these bytes."""
    size, sums = checksums_of([data])
    return FileEntry(path="x", size=size, checksums=[c for c in sums if not algorithms or c.algorithm in algorithms])


def checked(place: Place, key: str, wanted: FileEntry) -> tuple[str, int]:
    """What the operator finds wrong with a file, and how many bytes it read for that."""
    read: list[int] = []
    return check_file(place.reader, key, wanted, read.append).problem, sum(read)


def noise(size: int) -> bytes:
    """Bytes that no run-length trick could hide."""
    return random.Random(size).randbytes(size)  # noqa: S311  # test data


# ------------------------------------------------------------------ reading and listing


def test_what_the_driver_writes_the_operator_reads_lists_and_heads(place: Place) -> None:
    place.writer.put("train/a/x", b"abc")
    place.writer.put("train/a/empty", b"")
    place.put("train/a/", b"")
    place.writer.put("train/ab/y", b"1")
    assert place.reader.get("train/a/x", 10) == b"abc"
    assert place.reader.get("train/a/empty", 10) == b""
    assert [(e.key, e.size) for e in place.reader.listing("train/a", 9)] == [("train/a/empty", 0), ("train/a/x", 3)]
    assert place.reader.folders("train", 9) == ["a", "ab"]
    assert place.reader.head("train/a/x").size == 3
    assert b"".join(place.reader.chunks("train/a/x")) == b"abc"
    assert list(place.reader.chunks("train/a/empty")) == []
    assert {e.key for e in place.writer.entries("train")} == {"train/a/x", "train/a/empty", "train/ab/y"}


def test_what_is_not_there_is_absent_and_a_bucket_that_is_not_there_is_not(place: Place) -> None:
    for read in (
        lambda: place.reader.get("no", 9),
        lambda: place.reader.head("no"),
        lambda: list(place.reader.chunks("no")),
    ):
        with pytest.raises(Absent):
            read()
    assert place.reader.listing("no", 9) == []
    gone = open_store(Location("s3", f"gone-{uuid.uuid4().hex[:8]}", "p"), REGION, place.server.endpoint)
    with pytest.raises(Denied, match="does not exist"):
        gone.listing("x", 9)


def test_listings_go_over_pages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_s3, "PAGE", 7)
    for number in range(30):
        place.writer.put(f"train/t{number:02}/x", b"1")
    assert len(place.reader.listing("train", 99)) == 30
    assert len(place.reader.folders("train", 99)) == 30


def test_a_read_goes_over_ranges_and_keeps_to_one_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_s3, "RANGE", 1000)
    data = noise(4_321)
    place.writer.put("x", data)
    assert b"".join(place.reader.chunks("x")) == data
    pieces = place.reader.chunks("x")
    assert next(pieces) == data[:1000]
    place.writer.put("x", noise(4_320))
    with pytest.raises(Unavailable, match="replaced while it was read"):
        list(pieces)


# ------------------------------------------------------------------ conditional writes


def test_conditional_writes_are_kept(place: Place) -> None:
    assert place.writer.create("attempts/1/start.json", b"one")
    assert not place.writer.create("attempts/1/start.json", b"two")
    assert place.writer.create("attempts/1/start.json", b"one")  # a retry that meets its own first write
    text, tag = place.writer.tagged("attempts/1/start.json") or (b"", "")
    assert text == b"one"
    assert place.writer.replace("attempts/1/start.json", b"three", tag)
    assert not place.writer.replace("attempts/1/start.json", b"four", tag)
    assert place.reader.get("attempts/1/start.json", 99) == b"three"


def test_the_preflight_passes(place: Place) -> None:
    place.writer.preflight(".preflight-1")
    assert place.writer.entries("") == []


# ------------------------------------------------------------------ checksums


@pytest.mark.parametrize("algorithm", ["", "CRC32", "SHA256", "SHA1", "CRC32C", "CRC64NVME"])
def test_a_small_object_is_proven_by_whatever_checksum_it_has(place: Place, algorithm: str) -> None:
    data = noise(10_000)
    # The value and not the name: botocore computes two of them only with a package that nobody needs otherwise.
    place.put("x", data, **({f"Checksum{algorithm}": checksum_of([data], algorithm)} if algorithm else {}))
    assert checked(place, "x", entry(data))[0] == ""
    assert checked(place, "x", entry(b"Z" + data[1:]))[0] == "WrongChecksum"
    assert checked(place, "x", entry(data[1:]))[0] == "WrongSize"
    if place.server.keeps_checksums and algorithm in ("CRC32", "SHA256"):
        assert checked(place, "x", entry(data)) == ("", 0)


@pytest.mark.parametrize("kind", ["COMPOSITE", "FULL_OBJECT"])
def test_an_object_in_parts_is_proven_without_a_read_where_its_parts_are_known(place: Place, kind: str) -> None:
    parts = [noise(5 * MIB), noise(5 * MIB + 1), b"tail"]
    data = b"".join(parts)
    place.multipart("x", parts, ChecksumAlgorithm="CRC32", ChecksumType=kind)
    found = checked(place, "x", entry(data))
    assert found[0] == ""
    if place.server.keeps_checksums:
        info = place.reader.head("x")
        assert len(info.composites) == (kind == "COMPOSITE")
        assert len(info.checksums) == (kind == "FULL_OBJECT")
        if kind == "FULL_OBJECT" or place.server.tells_parts:
            assert found == ("", 0)
    assert checked(place, "x", entry(b"Z" + data[1:]))[0] == "WrongChecksum"


def test_a_composite_of_a_hash_is_read_back(place: Place) -> None:
    parts = [noise(5 * MIB), b"tail"]
    place.multipart("x", parts, ChecksumAlgorithm="SHA256")
    assert checked(place, "x", entry(b"".join(parts))) == ("", 5 * MIB + 4)
    assert checked(place, "x", entry(b"Z" + b"".join(parts)[1:]))[0] == "WrongChecksum"


def test_what_ray_uploads_is_proven(place: Place) -> None:
    data = noise(6 * MIB)
    filesystem, root = place.writer.filesystem()
    with filesystem.open_output_stream(f"{root}/train/t/state.pt") as out:
        out.write(data)
    assert checked(place, "train/t/state.pt", entry(data))[0] == ""
    assert checked(place, "train/t/state.pt", entry(b"Z" + data[1:]))[0] == "WrongChecksum"
    assert checked(place, "train/t/state.pt", entry(data, "CRC32"))[0] == ""


# ------------------------------------------------------------------ copies


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("parts", [False, True])
def test_a_copy_has_the_bytes_of_its_original(place: Place, checksums: bool, parts: bool) -> None:
    data = noise(11 * MIB)
    place.writer.put("train/t/x", data)
    target = Location("s3", place.server.bucket(), "models/x")
    source = (place.location.bucket, f"{place.location.prefix}/train/t/x")
    limit = {"limit": 6 * MIB, "part": 5 * MIB} if parts else {}
    copy_object(place.writer.client, source, (target.bucket, "models/x/y"), checksums=checksums, **limit)
    copied = Place(
        place.server,
        target,
        Writer(target, REGION, place.server.endpoint),
        open_store(target, REGION, place.server.endpoint),  # type: ignore[arg-type]  # a double, or a union that the stub leaves out
    )
    assert checked(copied, "y", entry(data))[0] == ""
    assert copied.reader.get("y", 12 * MIB) == data


def test_a_copy_that_fails_half_way_leaves_no_open_upload(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.writer.put("x", noise(11 * MIB))
    client = place.writer.client
    calls = itertools.count()
    real: Callable[..., Any] = client.upload_part_copy

    def second_fails(**request: Any) -> Any:
        if next(calls):
            raise OSError("cut")
        return real(**request)

    monkeypatch.setattr(client, "upload_part_copy", second_fails)
    where = (place.location.bucket, f"{place.location.prefix}/x")
    with pytest.raises(OSError, match="cut"):
        copy_object(client, where, (where[0], f"{where[1]}-copy"), checksums=False, limit=6 * MIB, part=5 * MIB)
    assert not place.server.client.list_multipart_uploads(Bucket=where[0]).get("Uploads")
    with pytest.raises(Absent):
        place.reader.head("x-copy")


def test_a_store_copies_to_a_store_and_says_what_is_gone(place: Place) -> None:
    place.writer.put("train/t/x", b"abc")
    target = Writer(Location("s3", place.server.bucket(), "models"), REGION, place.server.endpoint)
    place.writer.copy_to("train/t/x", target, "t/x")
    assert target.get("t/x") == b"abc"
    with pytest.raises(DriverError, match="gone"):
        place.writer.copy_to("train/t/none", target, "t/x")


# ------------------------------------------------------------------ what explains an absence


def test_an_open_upload_is_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    if not place.server.dates_uploads:
        monkeypatch.setattr(store_s3, "ABANDONED_SECONDS", 10**10)  # the double begins every upload in 2010
    key = f"{place.location.prefix}/train/t/x"
    place.server.client.create_multipart_upload(Bucket=place.location.bucket, Key=key)
    assert place.reader.uploading("train/t") == {"train/t/x"}
    assert place.reader.uploading("train/other") == set()
    monkeypatch.setattr(store_s3, "ABANDONED_SECONDS", -1)
    assert place.reader.uploading("train/t") == set()


def test_a_delete_marker_hides_a_file_and_the_advice_names_its_version(place: Place) -> None:
    client, bucket = place.server.client, place.location.bucket
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    place.writer.put("train/t/x", b"abc")
    version = client.head_object(Bucket=bucket, Key=f"{place.location.prefix}/train/t/x")["VersionId"]
    place.writer.delete(["train/t/x"])
    with pytest.raises(Absent):
        place.reader.head("train/t/x")
    assert place.reader.listing("train/t", 9) == []
    assert version in place.reader.advice("train/t/x")
    assert place.reader.advice("train/t/never") == ""
    place.writer.put("train/t/x", b"new")
    assert place.reader.get("train/t/x", 9) == b"new"


# ------------------------------------------------------------------ refusals


def test_wrong_keys_are_refused_and_prove_nothing(place: Place) -> None:
    place.writer.put("x", b"abc")
    for key, secret in (("AKIAUNKNOWN", "secret"), ("", "")):
        if not place.server.authenticates:
            break
        client = client_of(place.server.endpoint, key or "test", secret or "wrong-secret")
        with pytest.raises(StoreError) as found:
            S3Store(place.location, client).get("x", 9)
        assert isinstance(found.value, Denied)
        with pytest.raises(Denied):
            S3Store(place.location, client).head("x")
    assert place.reader.get("x", 9) == b"abc"
