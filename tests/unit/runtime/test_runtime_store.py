from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.faults import answer, watch
from tests.unit.runtime.runs import Run, sha256
from trainsweep.contract.digests import checksum_of
from trainsweep.contract.layout import Location, StorageURIError
from trainsweep.runtime import store_s3
from trainsweep.runtime.store import Absent, Denied, FileStore, TooLarge, Unavailable, WrongRegion
from trainsweep.runtime.store_s3 import S3Store, client_for, open_store


def test_reads_are_bounded(run: Run) -> None:
    run.put("progress.json", b"x" * 10_000)
    run.put("empty.json", b"")
    assert run.store.get("progress.json", 10_000) == b"x" * 10_000
    assert run.store.get("empty.json", 10) == b""
    with pytest.raises(TooLarge):
        run.store.get("progress.json", 9_999)
    with pytest.raises(Absent):
        run.store.get("none.json", 10)
    assert run.store.head("progress.json").size == 10_000
    with pytest.raises(Absent):
        run.store.head("none.json")
    assert checksum_of(run.store.chunks("progress.json"), "SHA256") == sha256(b"x" * 10_000)
    with pytest.raises(Absent):
        list(run.store.chunks("none.json"))


def test_listings_are_bounded_relative_and_without_neighbours(run: Run) -> None:
    for key in ("train/a/1", "train/a/2/x", "train/ab/3", "train/a2", "other/4"):
        run.put(key, b"12345")
    assert [(e.key, e.size) for e in run.store.listing("train/a", 10)] == [("train/a/1", 5), ("train/a/2/x", 5)]
    assert run.store.listing("train/none", 10) == []
    assert run.store.folders("train", 10) == ["a", "ab"]
    assert run.store.folders("none", 10) == []
    with pytest.raises(TooLarge):
        run.store.listing("train/a", 1)
    with pytest.raises(TooLarge):
        run.store.folders("train", 1)


def test_folder_markers_and_odd_keys_are_no_objects(s3_run: Run) -> None:
    s3_run.put("train/a/", b"")
    s3_run.put("train/a/x", b"1")
    s3_run.put("train/a/b//c", b"1")
    assert [e.key for e in s3_run.store.listing("train/a", 10)] == ["train/a/x"]


def test_listings_go_over_pages(s3_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_s3, "PAGE", 2)
    for number in range(5):
        s3_run.put(f"train/a{number}/x", b"")
    assert len(s3_run.store.listing("train", 5000)) == 5
    assert s3_run.store.folders("train", 5000) == ["a0", "a1", "a2", "a3", "a4"]


@pytest.mark.parametrize("key", ["../x", "/etc/passwd", "a/../../b", "a//b", "", "a\\b", "a\nb", "./x"])
def test_no_key_leaves_the_run(run: Run, key: str) -> None:
    requests = answer(run.store, 500) if isinstance(run.store, S3Store) else []
    for read in (
        lambda: run.store.get(key, 10),
        lambda: run.store.head(key),
        lambda: run.store.listing(key, 10),
        lambda: run.store.folders(key, 10),
        lambda: list(run.store.chunks(key)),
    ):
        with pytest.raises(Denied):
            read()
    assert requests == []


def test_a_link_out_of_a_folder_is_refused(file_run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    file_run.put("a", b"1")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(Denied):
        file_run.store.get("link", 10)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (403, "AccessDenied", Denied),
        (403, "InvalidAccessKeyId", Denied),
        (403, "SignatureDoesNotMatch", Denied),
        (404, "NoSuchBucket", Denied),
        (404, "NoSuchKey", Absent),
        (400, "ExpiredToken", Unavailable),
        (503, "SlowDown", Unavailable),
        (500, "InternalError", Unavailable),
        (429, "TooManyRequests", Unavailable),
    ],
)
def test_refusals_have_types_and_403_is_never_absent(
    s3_run: Run, status: int, code: str, error: type[Exception]
) -> None:
    answer(s3_run.store, status, code, "words of the store")
    reads = [
        lambda: s3_run.store.get("x", 10),
        lambda: s3_run.store.listing("x", 10),
        lambda: s3_run.store.folders("x", 10),
        lambda: list(s3_run.store.chunks("x")),
    ]
    # What may pass is tried again with a pause: one kind of read shows it.
    for read in reads[:1] if error is Unavailable else reads:
        with pytest.raises(error) as found:
            read()
        assert type(found.value) is error


@pytest.mark.parametrize(("status", "error"), [(403, Denied), (404, Absent), (503, Unavailable)])
def test_a_head_has_no_body_but_the_same_types(s3_run: Run, status: int, error: type[Exception]) -> None:
    answer(s3_run.store, status)
    with pytest.raises(error):
        s3_run.store.head("x")


def test_another_region_is_named(s3_run: Run) -> None:
    answer(s3_run.store, 301, "PermanentRedirect", "elsewhere", {"x-amz-bucket-region": "eu-central-1"})
    with pytest.raises(Denied) as found:
        s3_run.store.get("x", 10)
    assert isinstance(found.value, WrongRegion)
    assert "eu-central-1" in str(found.value)


def test_a_closed_port_and_a_bucket_that_is_not_there(s3_endpoint: str) -> None:
    nobody = open_store(Location("s3", "b", "p"), "us-east-1", "http://127.0.0.1:9")
    with pytest.raises(Unavailable):
        nobody.get("x", 10)
    missing = open_store(Location("s3", "no-such-bucket-here", "p"), "us-east-1", s3_endpoint)
    with pytest.raises(Denied, match="does not exist"):
        missing.get("x", 10)
    with pytest.raises(Denied):
        client_for("us-east-1", "not a url")


def test_only_the_first_bytes_of_a_huge_object_are_asked_for(s3_run: Run) -> None:
    s3_run.put("progress.json", b"x" * 1_000_000)
    seen = watch(s3_run.store)
    with pytest.raises(TooLarge):
        s3_run.store.get("progress.json", 4096)
    assert [r.headers["Range"] for r in seen] == [b"bytes=0-4096"]


def test_checksums_that_the_store_keeps_cover_the_whole_object(s3_run: Run, bucket: tuple[Any, str]) -> None:
    client, name = bucket
    key = f"{s3_run.store.location.prefix}/x"
    client.put_object(Bucket=name, Key=key, Body=b"abc", ChecksumAlgorithm="SHA256")
    kept = {c.algorithm: c.value for c in s3_run.store.head("x").checksums}
    assert kept.get("SHA256") == sha256(b"abc")


def test_a_location_of_another_kind_is_refused() -> None:
    with pytest.raises(StorageURIError):
        FileStore(Location("s3", "b", "p"))
    with pytest.raises(StorageURIError):
        S3Store(Location("file", "", "p"), None)
