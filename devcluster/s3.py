"""versitygw: an S3 server over a folder, with an access log, on an address that host and pods share."""

import datetime
import hashlib
import hmac
import http.client
from pathlib import Path

from devcluster import programs
from devcluster.errors import DevClusterError
from devcluster.instance import Instance
from devcluster.procs import Processes
from devcluster.waiting import wait_for

REGION = "us-east-1"
_EMPTY = hashlib.sha256(b"").hexdigest()


def access_log(instance: Instance) -> Path:
    """One request a line: time, address, requester, operation, key, status, bytes, milliseconds, user agent."""
    return instance.state / "s3-access.log"


def start(instance: Instance, processes: Processes) -> None:
    """Start the server and return when it answers.

    Raises:
        DevClusterError: it ended or does not answer.
    """
    folders = {name: instance.state / "s3" / name for name in ("data", "versions", "iam")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    access_log(instance).touch()
    argv: list[str | Path] = [
        programs.path("versitygw"),
        "--port",
        f"{instance.host_ip}:{instance.port('versitygw')}",
        "--region",
        REGION,
        "--access-log",
        access_log(instance),
        "--iam-dir",
        folders["iam"],
        "--health",
        "/health",
        "posix",
        "--versioning-dir",
        folders["versions"],
        folders["data"],
    ]
    secrets = {"ROOT_ACCESS_KEY": instance.s3_access_key, "ROOT_SECRET_KEY": instance.s3_secret_key}
    processes.start("versitygw", argv, env=secrets)
    wait_ready(instance, processes)


def wait_ready(instance: Instance, processes: Processes) -> None:
    """Return when the server answers on its health path."""

    def probe() -> str | None:
        processes.check("versitygw")
        connection = http.client.HTTPConnection(instance.host_ip, instance.port("versitygw"), timeout=2)
        try:
            connection.request("GET", "/health")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return str(error)
        finally:
            connection.close()
        return None if status == 200 else f"HTTP {status}"

    wait_for("S3 server ready", probe, 20, f"Log: {instance.logs / 'versitygw.log'}")


def create_bucket(instance: Instance, bucket: str) -> None:
    """Create a bucket; one that exists already is fine.

    Raises:
        DevClusterError: the server refuses.
    """
    status, body = _signed_put(instance, f"/{bucket}")
    if status not in (200, 409):
        raise DevClusterError(f"the S3 server does not create bucket '{bucket}': HTTP {status}: {body[:500]}")


def _signed_put(instance: Instance, path: str) -> tuple[int, str]:
    """A PUT without body, signed with AWS Signature Version 4: one call does not warrant an SDK here."""
    host = f"{instance.host_ip}:{instance.port('versitygw')}"
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    day = stamp[:8]
    headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
    names = ";".join(headers)
    canonical = "\n".join(["PUT", path, "", *(f"{key}:{value}" for key, value in headers.items()), "", names, _EMPTY])
    scope = f"{day}/{REGION}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{instance.s3_secret_key}".encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={instance.s3_access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    connection = http.client.HTTPConnection(instance.host_ip, instance.port("versitygw"), timeout=10)
    try:
        connection.request("PUT", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()
