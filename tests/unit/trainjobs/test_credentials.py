"""B4: temporary credentials end in mid-run. Both clients, and what was pickled for the workers, fetch the next ones.

Identities as EKS Pod Identity gives them (an address, and a token in a file that is rotated); the store is moto behind a
guard that refuses a key after its end, as S3 does.
"""

import json
import pickle
import threading
import time
from datetime import UTC, datetime

import pytest

pytest.importorskip("moto.server")  # an extra; CI has it and fails on a skip

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from trainjobs.s3store import S3Store
from trainsweep.contract.layout import parse_uri

pytestmark = pytest.mark.slow

VALID = 8.0
"""Seconds that credentials hold. pyarrow's client fetches new ones in the last five, boto3 far earlier."""
EXPIRED = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


class Place:
    """The identity service and the store on one port."""

    def __init__(self, token_file):
        self.token_file = token_file
        self.ends, self.used, self.refused, self.denied = {}, [], [], 0
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.server = make_server("127.0.0.1", 0, self, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __call__(self, environ, start_response):
        request = Request(environ)
        answer = self.issue(request) if request.path == "/credentials" else self.guard(request)
        return (answer or self.moto)(environ, start_response)

    def issue(self, request):
        if request.headers.get("Authorization") != self.token_file.read_text():
            self.denied += 1
            return Response("a token of yesterday", status=401)
        number = len(self.ends) + 1
        self.ends[f"AK{number}"] = time.time() + VALID
        known = {
            "AccessKeyId": f"AK{number}",
            "SecretAccessKey": "secret",
            "Token": f"session-{number}",
            "Expiration": datetime.fromtimestamp(self.ends[f"AK{number}"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return Response(json.dumps(known), content_type="application/json")

    def guard(self, request):
        key = request.headers.get("Authorization", "").partition("Credential=")[2].partition("/")[0]
        self.used.append(key)
        if time.time() < self.ends.get(key, 0):
            return None
        self.refused.append((key, request.method, request.path))
        return Response(EXPIRED, status=400, content_type="application/xml")


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)
    token = tmp_path / "token"
    token.write_text("of the first hour")
    made = Place(token)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{made.url}/credentials")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    yield made
    made.server.shutdown()


def test_b4_credentials_that_end_are_fetched_anew_by_both_clients(place, tmp_path):
    store = S3Store(parse_uri(f"s3://data/{tmp_path.name}"), "us-east-1", place.url)
    store.client.create_bucket(Bucket="data")
    fs, root = store.filesystem()
    worker = pickle.loads(pickle.dumps(fs))  # noqa: S301 - our own bytes
    store.put("early", b"1")
    for where, name in ((fs, "driver"), (worker, "worker")):
        with where.open_output_stream(f"{root}/{name}-early") as out:
            out.write(b"1")
    first = set(place.ends)
    half = fs.open_output_stream(f"{root}/long")
    half.write(b"x" * (11 << 20))  # above pyarrow's part size: the first part goes now

    place.token_file.write_text("of the second hour")
    time.sleep(max(place.ends.values()) - time.time() + 0.5)  # a head that is idle for longer than its credentials hold
    before = len(place.used)
    half.write(b"y" * (11 << 20))
    half.close()
    store.put("late", b"2")
    assert store.create("once", b"3")
    for where, name in ((fs, "driver"), (worker, "worker")):
        with where.open_output_stream(f"{root}/{name}-late") as out:
            out.write(b"2")
        with where.open_input_stream(f"{root}/late") as source:
            assert source.read() == b"2"
    sizes = {e.key: e.size for e in store.entries("")}
    assert sizes["long"] == 22 << 20
    assert {"early", "late", "driver-late", "worker-late", "once"} <= set(sizes)
    assert place.refused == []
    assert place.denied == 0, "the rotated file is read anew"
    assert not first & set(place.used[before:])
    newest = max(e.modified for e in store.entries(""))
    assert newest > max(place.ends[key] for key in first) - 1  # whole seconds
