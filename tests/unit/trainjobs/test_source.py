"""The code of `training.source.s3`: the right bytes or none, unpacked inside of its folder or not at all."""

import hashlib
import io
import os
import sys
import tarfile
import zipfile

import pytest

from trainjobs import source
from trainjobs.outcome import DriverError
from trainjobs.source import Archive, ensure, unpack
from trainsweep.contract.documents import FailureReason

CODE = b"VALUE = 42\ndef train_loop(config): ...\n"
ANY = Archive("s3://b/code", "0" * 64)


def zipped(*members, link=None):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as opened:
        for name, data in members:
            opened.writestr(name, data)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = 0o120777 << 16
            opened.writestr(info, "/etc/passwd")
    return out.getvalue()


def tarred(*members, kind=None, mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as opened:
        for name, data in members:
            info = tarfile.TarInfo(name)
            if kind is not None:
                info.type, info.linkname = kind, "/etc/passwd"
                opened.addfile(info)
            else:
                info.size = len(data)
                opened.addfile(info, io.BytesIO(data))
    return out.getvalue()


def unpacked(tmp_path, data):
    file, into = tmp_path / "archive", tmp_path / "code"
    tmp_path.mkdir(exist_ok=True)
    file.write_bytes(data)
    into.mkdir()
    unpack(ANY, file, into)
    return {p.relative_to(into).as_posix(): p.read_bytes() for p in into.rglob("*") if p.is_file()}


@pytest.mark.parametrize("make", [zipped, tarred, lambda *m: tarred(*m, mode="w")], ids=["zip", "tar.gz", "tar"])
def test_files_and_folders_are_unpacked(tmp_path, make):
    assert unpacked(tmp_path, make(("a.py", CODE), ("pkg/b.py", b""))) == {"a.py": CODE, "pkg/b.py": b""}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (zipped(("../evil.py", CODE)), "would be unpacked outside"),
        (zipped(("/abs/evil.py", CODE)), "would be unpacked outside"),
        (zipped(("a\\..\\evil.py", CODE)), "would be unpacked outside"),
        (tarred(("a/../../evil.py", CODE)), "would be unpacked outside"),
        (zipped(link="link.py"), "is a link"),
        (tarred(("link.py", b""), kind=tarfile.SYMTYPE), "is a link or a device"),
        (tarred(("link.py", b""), kind=tarfile.LNKTYPE), "is a link or a device"),
        (tarred(("dev", b""), kind=tarfile.CHRTYPE), "is a link or a device"),
        (b"neither of them", "neither a .zip nor a .tar"),
    ],
    # Not the bytes: an archive holds the second in which it was made, and workers of one run must name a test alike.
    ids=[
        "above",
        "absolute",
        "backslashes",
        "above-later",
        "link-in-zip",
        "symlink",
        "hard-link",
        "device",
        "no-archive",
    ],
)
def test_what_could_leave_the_folder_is_refused(tmp_path, data, text):
    with pytest.raises(DriverError) as error:
        unpacked(tmp_path, data)
    assert error.value.reason is FailureReason.BAD_ENTRYPOINT
    assert text in error.value.message
    assert not (tmp_path / "evil.py").exists()


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MAX_BYTES", 1000)
    with pytest.raises(DriverError, match="this is for code"):
        unpacked(tmp_path, zipped(("zeros", b"\0" * 2000)))
    monkeypatch.setattr(source, "MAX_FILES", 1)
    with pytest.raises(DriverError, match="this is for code"):
        unpacked(tmp_path / "more", zipped(("a", b""), ("b", b"")))


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    """A store of one archive; `fetched` counts the downloads."""
    monkeypatch.setenv("TRAINSWEEP_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))

    class Bucket:
        data, fetched = zipped(("fetched_mod.py", CODE)), 0

        def stream(self, key):
            if key != "code.zip":
                raise FileNotFoundError(key)
            self.fetched += 1
            yield self.data

    bucket = Bucket()
    monkeypatch.setattr(source, "open_store", lambda ref: bucket)
    yield bucket
    sys.modules.pop("fetched_mod", None)


def test_code_is_fetched_once_and_importable(bucket):
    archive = Archive("s3://b/p/code.zip", hashlib.sha256(bucket.data).hexdigest())
    ensure(archive)
    ensure(archive)
    assert bucket.fetched == 1
    from trainjobs.loop import find_loop

    assert find_loop("fetched_mod:train_loop")[0].__module__ == "fetched_mod"
    ensure(None)


def test_other_bytes_are_never_unpacked(bucket, tmp_path):
    with pytest.raises(DriverError, match=r"has SHA-256 .* nothing was unpacked"):
        ensure(Archive("s3://b/p/code.zip", "1" * 64))
    assert not (tmp_path / "source" / ("1" * 64)).exists()
    assert [n for n in os.listdir(tmp_path / "source") if not n.endswith(".lock")] == []


def test_a_missing_archive_is_named(bucket):
    with pytest.raises(DriverError, match=r"s3://b/p/other.zip: does not exist"):
        ensure(Archive("s3://b/p/other.zip", "1" * 64))
