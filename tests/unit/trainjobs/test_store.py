"""Both stores behave alike; what S3 refuses is said in words that name the cure."""

import boto3
import pytest

from tests.moto_server import s3_endpoint
from trainjobs.filestore import FileStore
from trainjobs.outcome import DriverError
from trainjobs.patience import patiently
from trainjobs.s3store import S3Store
from trainjobs.store import denied, open_store, probe_filesystem, unavailable
from trainsweep.contract.documents import FailureReason, StoreRef
from trainsweep.contract.layout import parse_uri

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def endpoint():
    with s3_endpoint() as url:
        yield url


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


@pytest.mark.parametrize("prefix", ["a b/größe", "trailing/", "plus+and&amp", "emoji-\U0001f600"])
def test_f1_odd_prefixes_work_through_both_clients(tmp_path, endpoint, prefix):
    store = S3Store(parse_uri(f"s3://data/{tmp_path.name}/{prefix}").child("default", "demo", "v1"), None, endpoint)
    store.preflight(".preflight-1")
    assert store.entries("") == []
    fs, root = store.filesystem()
    with fs.open_output_stream(f"{root}/train/x y.bin") as out:
        out.write(b"123")
    assert [(e.key, e.size) for e in store.entries("train")] == [("train/x y.bin", 3)]
    store.put("train/z", b"4")
    with fs.open_input_stream(f"{root}/train/z") as source:
        assert source.read() == b"4"
    store.delete_tree("train")
    assert store.entries("") == []


class Refusing:
    """pyarrow's file system as far as a probe needs it; one kind of call is refused."""

    def __init__(self, what, text="AWS Error ACCESS_DENIED during PutObject"):
        self.what, self.text, self.kept = what, text, b""

    def open_output_stream(self, path):
        fs = self

        class Out:
            data = b""

            def __enter__(self):
                return self

            def write(self, data):
                self.data = data

            def __exit__(self, *exc):
                if fs.what == ("write" if self.data else "empty"):
                    raise OSError(fs.text)
                fs.kept = self.data

        return Out()

    def open_input_stream(self, path):
        import io

        return io.BytesIO(b"other" if self.what == "read" else self.kept)

    def delete_file(self, path):
        if self.what == "delete":
            raise OSError(self.text)


@pytest.mark.parametrize(
    ("what", "text", "reason", "message"),
    [
        ("write", "AWS Error ACCESS_DENIED", "StorageDenied", "writing below s3://b/p with pyarrow is denied"),
        ("write", "AWS Error NETWORK_CONNECTION", "StorageUnavailable", "writing below s3://b/p with pyarrow failed"),
        ("read", "", "StorageUnavailable", "reads back other bytes"),
        ("empty", "AWS Error INVALID_REQUEST", "StorageDenied", "writing an empty object (Ray's markers are empty)"),
    ],
)
def test_b5_the_probe_says_which_kind_of_write_is_refused(what, text, reason, message):
    with pytest.raises(DriverError) as error:
        probe_filesystem(Refusing(what, text), "b/p", ".probe", "s3://b/p")
    assert error.value.reason == reason
    assert message in error.value.message


def test_f6_a_refused_delete_is_a_warning(caplog):
    probe_filesystem(Refusing("delete"), "b/p", ".probe", "s3://b/p")
    assert "retention cannot delete anything below s3://b/p" in caplog.text


def answered(code, text="", status=403, headers=None):
    from botocore.exceptions import ClientError

    meta = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    return ClientError({"Error": {"Code": code, "Message": text}, "ResponseMetadata": meta}, "PutObject")


def test_a7_a_denial_names_the_identity_that_was_really_used(endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
    store = S3Store(parse_uri("s3://data/x"), None, None)
    text = store._explain("writing x", answered("AccessDenied")).message
    assert "denied (AccessDenied) as arn:aws:sts::123456789012:" in text
    assert "storage.serviceAccountName" in text


@pytest.mark.parametrize(
    ("code", "text", "part"),
    [
        ("RequestTimeTooSkewed", "", "the clock of this node is too far off: correct its time (NTP)"),
        ("AccessDenied", "explicit deny: encryption", "use the bucket's default encryption"),  # F5
        ("AccessDenied", "", "Requester Pays"),  # F2
    ],
)
def test_f2_f5_a_refusal_names_its_cause(endpoint, code, text, part):
    error = S3Store(parse_uri("s3://data/x"), None, endpoint)._explain("writing x", answered(code, text))
    assert error.reason is FailureReason.STORAGE_DENIED
    assert part in error.message
    assert text in error.message


def test_f9_a_bucket_elsewhere_is_named_with_its_region(endpoint):
    error = S3Store(parse_uri("s3://data/x"), None, endpoint)._explain(
        "looking", answered("301", status=301, headers={"x-amz-bucket-region": "eu-west-1"})
    )
    assert "lies in eu-west-1, not in us-east-1: set storage.region" in error.message


def test_a_clock_that_is_off_is_said(endpoint, caplog):
    store = S3Store(parse_uri("s3://data/x"), None, endpoint)
    store._compare_clocks("Sat, 28 Nov 2026 00:00:00 GMT")
    assert "the clock of this node is" in caplog.text
    caplog.clear()
    from email.utils import formatdate

    store._compare_clocks(formatdate(usegmt=True))
    store._compare_clocks("")
    assert caplog.text == ""


@pytest.mark.parametrize(("text", "expected"), [("", 8), ("3", 3), ("0", 1), ("many", 8), ("1000", 50)])
def test_retries_follow_the_variable_of_aws(monkeypatch, text, expected):
    from trainjobs.s3store import attempts

    monkeypatch.setenv("AWS_MAX_ATTEMPTS", text)
    assert attempts() == expected


def test_f4_an_access_point_is_used_by_its_alias_only():
    from trainsweep.contract.layout import StorageURIError

    place = parse_uri("s3://my-ap-abc123-s3alias/x")
    assert (place.bucket, place.uri) == ("my-ap-abc123-s3alias", "s3://my-ap-abc123-s3alias/x")
    with pytest.raises(StorageURIError, match="use the access point's alias"):
        parse_uri("s3://arn:aws:s3:eu-west-1:111122223333:accesspoint/my-ap/x")
