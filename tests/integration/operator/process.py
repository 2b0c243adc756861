"""The operator as a process of its own, as the ServiceAccount that the chart makes and with no more rights."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.paths import SOURCE

ROOT = SOURCE.parent


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Operator:
    """One `python -m trainsweep.runtime`; it can be killed and started again.

    As a context manager it takes one of a few slots, and leaves no process behind.
    """

    _slots = threading.BoundedSemaphore(int(os.environ.get("TRAINSWEEP_TEST_OPERATORS", "5")))

    def __init__(self, kubeconfig: Path, log: Path, namespaces: Sequence[str], env: Mapping[str, str]) -> None:
        self.log, self._port = log, free_port()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TRAINSWEEP_"))}
        self._env = {
            **kept,
            "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}",
            "KUBECONFIG": str(kubeconfig),
            "TRAINSWEEP_WATCH_NAMESPACES": ",".join(namespaces),
            "TRAINSWEEP_METRICS_PORT": str(self._port),
            "AWS_EC2_METADATA_DISABLED": "true",
            # Shows in the access log of the store, to tell its requests from the drivers'.
            "AWS_SDK_UA_APP_ID": "trainsweep-operator",
            # A busy machine is no broken one; the test of the start-up itself sets its own.
            "TRAINSWEEP_STARTUP_SECONDS": "600",
            **env,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Operator:
        self._slots.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._slots.release()

    def start(self, **env: str) -> Operator:
        """Starts it; `env` holds for this start only."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "trainsweep.runtime"],
                cwd="/",
                env={**self._env, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self

    def ready(self, timeout: float = 180) -> Operator:
        """Waits until it says that it is ready."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            if self.code is not None:
                raise AssertionError(f"the operator ended with {self.code}:\n{self.tail()}")
            if self.get("/readyz")[0] == 200:
                return self
            time.sleep(0.2)
        raise AssertionError(f"the operator is not ready after {timeout} s: {self.get('/readyz')}\n{self.tail()}")

    @property
    def code(self) -> int | None:
        """Its exit status, None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait(self, timeout: float) -> int:
        """Waits for its end."""
        assert self._process is not None
        return self._process.wait(timeout)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM, and SIGKILL to what is left after a while."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)

    def get(self, path: str) -> tuple[int, str]:
        """An answer of its port; status 0 where nobody listens."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def metric(self, name: str) -> float:
        """Sum over all label sets of a metric."""
        _, text = self.get("/metrics")
        return sum(float(v) for v in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.eE+-]+)$", text, re.MULTILINE))

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
