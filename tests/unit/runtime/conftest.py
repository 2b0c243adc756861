from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.unit.runtime.faults import end_faults
from tests.unit.runtime.runs import Run
from trainsweep.contract.layout import Location
from trainsweep.runtime.s3_clients import client_for
from trainsweep.runtime.store import FileStore
from trainsweep.runtime.store_s3 import S3Store


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    kept = {k: os.environ.get(k) for k in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED")}
    os.environ.update(dict.fromkeys(kept, "test"), AWS_EC2_METADATA_DISABLED="true")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    for name, value in kept.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def s3_clients(s3_endpoint: str) -> tuple[Any, Any]:
    """A plain client for the tests' own writes, and one as the operator has it. Making one takes a second."""
    plain = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")
    return plain, client_for("us-east-1", s3_endpoint)


@pytest.fixture
def bucket(s3_clients: tuple[Any, Any]) -> tuple[Any, str]:
    """A plain client and a fresh bucket."""
    name = f"b-{uuid.uuid4().hex[:12]}"
    s3_clients[0].create_bucket(Bucket=name)
    return s3_clients[0], name


@pytest.fixture
def s3_run(bucket: tuple[Any, str], s3_clients: tuple[Any, Any]) -> Iterator[Run]:
    client, name = bucket
    location = Location("s3", name, "team/team-a/digits/v1-0123456789abcdef")
    store = S3Store(location, s3_clients[1])

    def put(key: str, data: bytes) -> None:
        client.put_object(Bucket=name, Key=f"{location.prefix}/{key}", Body=data)

    def delete(key: str) -> None:
        client.delete_object(Bucket=name, Key=f"{location.prefix}/{key}")

    yield Run(store, put, delete)
    end_faults()


@pytest.fixture
def file_run(tmp_path: Path) -> Run:
    location = Location("file", "", str(tmp_path / "run").lstrip("/"))

    def put(key: str, data: bytes) -> None:
        path = tmp_path / "run" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(key: str) -> None:
        (tmp_path / "run" / key).unlink()

    return Run(FileStore(location), put, delete)


@pytest.fixture(params=["file", "s3"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.getfixturevalue(f"{request.param}_run")
    return found
