"""An S3 server of our own (versitygw over a folder) whose access log counts requests."""

import http.client
import os
import socket
import subprocess
import time
from collections import Counter
from pathlib import Path

from bench.driver.link import Link
from devcluster import programs

KEY, SECRET, REGION, BUCKET = "bench", "benchsecret", "us-east-1", "bench"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    """The server, on this machine or behind a link; `url` and `env` are what its clients need."""

    def __init__(self, folder: Path, link: Link | None = None) -> None:
        self.data, self.log = folder / "data", folder / "access.log"
        for place in (self.data, folder / "iam"):
            place.mkdir(parents=True)
        (self.data / BUCKET).mkdir()  # a folder of the gateway is a bucket
        self.log.touch()
        self.host, self.port = link.address if link else "127.0.0.1", free_port()
        self.url = f"http://{self.host}:{self.port}"
        binary = programs.path("versitygw")
        if not binary.exists():
            raise SystemExit("there is no versitygw yet: python -m devcluster build")
        command = [*(link.inside if link else []), binary]
        command += ["--port", f"{self.host}:{self.port}", "--region", REGION, "--access-log", self.log]
        command += ["--iam-dir", folder / "iam", "--health", "/health", "--quiet", "posix", self.data]
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(100):
            try:
                connection = http.client.HTTPConnection(self.host, self.port, timeout=2)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.2)
        raise RuntimeError("versitygw does not answer")

    @property
    def env(self) -> dict[str, str]:
        """Credentials as the clients' default chains find them."""
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": REGION}

    def mark(self) -> int:
        """A place in the access log."""
        return self.log.stat().st_size

    def requests(self, since: int) -> Counter[str]:
        """Requests by operation after a place in the log."""
        with self.log.open("rb") as opened:
            opened.seek(since)
            lines = opened.read().decode(errors="replace").splitlines()
        return Counter(operation(line) for line in lines if line.strip())

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def operation(line: str) -> str:
    """The operation of a log line, such as REST.PUT.OBJECT."""
    return next((word for word in line.split() if word.startswith("REST.") or word.count("_") == 1), "?")
