"""The conformance suite of stores against a real S3 server (versitygw), with authentication and policies of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import programs
from tests.store_conformance import *  # noqa: F403  # the suite
from tests.store_conformance import REGION, Place, Server, client_of
from trainsweep.runtime import s3_clients
from trainsweep.runtime.store import Denied
from trainsweep.runtime.store_s3 import S3Store

KEY, SECRET = "conformance", "conformance-secret"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("versitygw")
    for name in ("data", "versions", "iam"):
        (folder / name).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [str(programs.path("versitygw")), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"]
    argv += ["--iam-dir", str(folder / "iam"), "--health", "/health"]
    argv += ["posix", "--versioning-dir", str(folder / "versions"), str(folder / "data")]
    env = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(port, process, folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(200):
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture
def server(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    s3_clients._make_client.cache_clear()
    yield Server(
        endpoint,
        client_of(endpoint, KEY, SECRET),
        authenticates=True,
        keeps_checksums=True,
        tells_parts=False,
        dates_uploads=True,
    )
    s3_clients._make_client.cache_clear()


def test_a_policy_that_denies_one_key_makes_it_denied_never_absent(place: Place) -> None:
    client, bucket = place.server.client, place.location.bucket
    place.writer.put("train/t/x", b"abc")
    place.writer.put("train/t/y", b"abc")
    denied = f"arn:aws:s3:::{bucket}/{place.location.prefix}/train/t/x"
    statements: list[dict[str, Any]] = [
        {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{bucket}/*"]},
        {"Effect": "Allow", "Principal": "*", "Action": ["s3:ListBucket"], "Resource": [f"arn:aws:s3:::{bucket}"]},
        {"Effect": "Deny", "Principal": "*", "Action": ["s3:GetObject"], "Resource": [denied]},
    ]
    client.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": statements}))
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    anonymous = boto3.client(
        "s3",
        endpoint_url=place.server.endpoint,
        region_name=REGION,
        config=Config(signature_version=UNSIGNED, s3={"addressing_style": "path"}),
    )
    reader = S3Store(place.location, anonymous)
    assert reader.get("train/t/y", 9) == b"abc"
    for read in (lambda: reader.get("train/t/x", 9), lambda: reader.head("train/t/x")):
        with pytest.raises(Denied, match="s3:GetObject"):
            read()
