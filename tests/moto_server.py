"""moto's S3 server with the bucket `data`, for tests of the driver's store that need no real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest


@contextmanager
def s3_endpoint() -> Iterator[str]:
    """The server's address; keys for it are in the environment meanwhile."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)  # an extra; CI has it and fails on a skip
    server.start()
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    before = {k: os.environ.get(k) for k in keys}
    os.environ.update(keys)
    try:
        _, port = server.get_host_and_port()
        url = f"http://127.0.0.1:{port}"
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="data")
        yield url
    finally:
        server.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
