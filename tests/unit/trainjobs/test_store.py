"""Both stores behave alike; what S3 refuses is said in words that name the cure."""

import os

import boto3
import pytest

from trainjobs.filestore import FileStore
from trainjobs.outcome import DriverError
from trainjobs.patience import patiently
from trainjobs.s3store import S3Store
from trainjobs.store import denied, open_store, unavailable
from trainsweep.contract.documents import FailureReason, StoreRef
from trainsweep.contract.layout import parse_uri

server_module = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def endpoint():
    server = server_module.ThreadedMotoServer(port=0)
    server.start()
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    before = {k: os.environ.get(k) for k in keys}
    os.environ.update(keys)
    _, port = server.get_host_and_port()
    url = f"http://127.0.0.1:{port}"
    boto3.client("s3", endpoint_url=url).create_bucket(Bucket="data")
    yield url
    server.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(params=["file", "s3"])
def store(request, tmp_path, endpoint):
    if request.param == "file":
        return FileStore(parse_uri(f"file://{tmp_path}/run"))
    return S3Store(parse_uri(f"s3://data/{tmp_path.name}/run"), None, endpoint)


def test_preflight_passes_and_leaves_nothing(store):
    store.preflight(".preflight-1")
    assert store.entries("") == []


def test_write_read_list_delete(store):
    store.put("a/b/c.bin", b"123")
    store.put("a/b/c.bin", b"4567")
    store.put("ab/x", b"")
    assert store.get("a/b/c.bin") == b"4567"
    assert b"".join(store.stream("a/b/c.bin")) == b"4567"
    assert [(e.key, e.size) for e in store.entries("a")] == [("a/b/c.bin", 4)]  # not ab/x
    assert [e.key for e in store.entries("")] == ["a/b/c.bin", "ab/x"]
    store.delete(["a/b/c.bin", "never/there"])
    assert store.get("a/b/c.bin") is None
    with pytest.raises(FileNotFoundError):
        list(store.stream("a/b/c.bin"))
    store.put("t/1", b"")
    store.delete_tree("t")
    assert store.entries("t") == []


def test_write_once(store):
    assert store.create("k", b"one") is True
    assert store.create("k", b"two") is False
    assert store.get("k") == b"one"


def test_replace_needs_the_tag_of_what_is_there(store):
    store.put("k", b"one")
    _, tag = store.tagged("k")
    assert store.replace("k", b"two", tag) is True
    assert store.replace("k", b"three", tag) is False
    assert store.get("k") == b"two"
    assert store.tagged("other") is None


def test_what_ray_writes_lies_under_the_same_keys(store):
    store.put("x", b"1")  # the prefix exists
    fs, root = store.filesystem()
    fs.create_dir(f"{root}/train/t0")
    with fs.open_output_stream(f"{root}/train/t0/file") as out:
        out.write(b"abc")
    assert [e.key for e in store.entries("train")] == ["train/t0/file"]
    assert store.get("train/t0/file") == b"abc"


def test_the_filesystem_travels_to_the_workers_without_keys(endpoint):
    import pickle

    fs, _ = S3Store(parse_uri("s3://data/p"), None, endpoint).filesystem()
    data = pickle.dumps(fs)
    assert b"AWS_SECRET" not in data
    assert pickle.loads(data).get_file_info("data").type is not None  # noqa: S301 - our own bytes


def test_a_missing_bucket_is_said(endpoint):
    with pytest.raises(DriverError, match="bucket nowhere does not exist: create it") as error:
        S3Store(parse_uri("s3://nowhere/p"), None, endpoint).preflight("x")
    assert error.value.reason is FailureReason.STORAGE_DENIED


def test_an_endpoint_that_does_not_answer_is_unavailable():
    store = S3Store(parse_uri("s3://data/p"), None, "http://127.0.0.1:9")
    with pytest.raises(DriverError, match=r"http://127.0.0.1:9 cannot be reached") as error:
        store.put("x", b"")
    assert error.value.reason is FailureReason.STORAGE_UNAVAILABLE


def client_error(code, status, headers=None):
    from botocore.exceptions import ClientError

    return ClientError(
        {
            "Error": {"Code": code, "Message": "m"},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers or {}},
        },
        "PutObject",
    )


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (client_error("AccessDenied", 403), FailureReason.STORAGE_DENIED, "is denied (AccessDenied)"),
        (client_error("XAdminUserNotFound", 404), FailureReason.STORAGE_DENIED, "is denied"),
        (client_error("SomethingNew", 403), FailureReason.STORAGE_DENIED, "is denied (SomethingNew)"),
        (
            client_error("PermanentRedirect", 301, {"x-amz-bucket-region": "eu-west-1"}),
            FailureReason.STORAGE_DENIED,
            "lies in eu-west-1, not in us-east-1: set storage.region",
        ),
        (client_error("SlowDown", 503), FailureReason.STORAGE_UNAVAILABLE, "SlowDown"),
        (client_error("ExpiredToken", 400), FailureReason.STORAGE_UNAVAILABLE, "expired"),
        (client_error("InternalError", 500), FailureReason.STORAGE_UNAVAILABLE, "HTTP 500"),
    ],
)
def test_errors_of_the_store(endpoint, error, reason, text):
    found = S3Store(parse_uri("s3://data/p"), "us-east-1", endpoint)._explain("writing x", error)
    assert found.reason is reason
    assert text in found.message


def test_a_directory_that_may_not_be_written_is_denied(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DriverError):
        FileStore(parse_uri(f"file://{tmp_path}/file/run")).preflight("x")


def test_open_store_takes_the_scheme(tmp_path, endpoint):
    assert isinstance(open_store(StoreRef(uri=f"file://{tmp_path}")), FileStore)
    found = open_store(StoreRef(uri="s3://data/p", region="eu-west-1", endpoint_url=endpoint))
    assert (found.effective_region, found.endpoint) == ("eu-west-1", endpoint)


def test_patience_waits_for_what_may_pass_and_not_for_a_refusal():
    calls, slept, now = [], [], [0.0]

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    def flaky():
        calls.append(1)
        if len(calls) < 4:
            raise unavailable("503")
        return "done"

    assert patiently("x", flaky, sleep=sleep, clock=lambda: now[0]) == "done"
    assert slept == [1.0, 2.0, 4.0]
    with pytest.raises(DriverError):
        patiently("x", lambda: (_ for _ in ()).throw(denied("no")), sleep=sleep, clock=lambda: now[0])
    assert len(slept) == 3
    with pytest.raises(DriverError):
        patiently("x", lambda: (_ for _ in ()).throw(unavailable("503")), seconds=20, sleep=sleep, clock=lambda: now[0])
    assert sum(slept) <= 40


def test_only_our_own_open_uploads_are_found_and_ended(tmp_path, endpoint):
    client = boto3.client("s3", endpoint_url=endpoint)
    ours, neighbour = f"{tmp_path.name}/run/train/t0000/x.bin", f"{tmp_path.name}/run-2/train/t0000/x.bin"
    for key in (ours, neighbour):
        client.create_multipart_upload(Bucket="data", Key=key)
    store = S3Store(parse_uri(f"s3://data/{tmp_path.name}/run"), None, endpoint)
    (upload,) = store.open_uploads()
    assert upload.key == "train/t0000/x.bin"
    store.abort(upload)
    store.abort(upload)  # it has ended meanwhile
    assert store.open_uploads() == []
    left = [u["Key"] for u in client.list_multipart_uploads(Bucket="data").get("Uploads", [])]
    assert neighbour in left
    assert FileStore(parse_uri(f"file://{tmp_path}")).open_uploads() == []
