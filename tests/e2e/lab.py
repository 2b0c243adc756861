"""A real cluster with TrainSweep on it, and the verbs that the e2e tests are written in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.config import Config

from devcluster import sweeps
from devcluster.cluster import BUCKET, Cluster
from devcluster.errors import DevClusterError

HERE = Path(__file__).parent
LOOPS = "e2e-loops"
PATIENCE = 480.0
"""Seconds for what must come: two cores may be busy with other pods. No behaviour is judged by it."""


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Deep merge; None removes a key."""
    out = dict(base)
    for key, value in over.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merged(out[key], value)
        else:
            out[key] = value
    return out


@dataclass
class Sweep:
    """A TrainSweep as read from the API server."""

    body: dict[str, Any]

    @property
    def status(self) -> dict[str, Any]:
        """Its status."""
        return self.body.get("status", {})

    def condition(self, kind: str) -> tuple[str, str, str]:
        """(status, reason, message) of a condition; empty strings where it is absent."""
        for one in self.status.get("conditions", []):
            if one["type"] == kind:
                return one["status"], one["reason"], one.get("message", "")
        return "", "", ""

    def __str__(self) -> str:
        return json.dumps(self.status, indent=1)


class Lab:
    """One shared cluster; each test has sweeps of its own names."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.s3 = boto3.client(
            "s3",
            endpoint_url=cluster.s3_endpoint,
            aws_access_key_id=cluster.s3_access_key,
            aws_secret_access_key=cluster.s3_secret_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    # ------------------------------------------------------------------ sweeps

    def loops(self, namespace: str = "default") -> None:
        """Delivers the loops of these tests as a ConfigMap."""
        data = {path.name: path.read_text() for path in (HERE / "loops").glob("*.py")}
        sweeps.apply(
            self.cluster,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": LOOPS, "namespace": namespace},
                "data": data,
            },
        )

    def namespace(self, name: str) -> None:
        """A namespace with the S3 Secret and the loops in it."""
        sweeps.apply(self.cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        sweeps.apply(self.cluster, sweeps.s3_secret(self.cluster, name))
        self.loops(name)

    def manifest(self, name: str, over: dict[str, Any] | None = None, namespace: str = "default") -> dict[str, Any]:
        """A small sweep: two trials of the loop `e2e_loop:loop`, no torch."""
        base: dict[str, Any] = yaml.safe_load((HERE / "base.yaml").read_text())
        base["metadata"] = {"name": name, "namespace": namespace}
        base["spec"] = merged(base["spec"], over or {})
        return base

    def apply(self, name: str, over: dict[str, Any] | None = None, namespace: str = "default") -> None:
        """Creates a small sweep."""
        sweeps.apply(self.cluster, self.manifest(name, over, namespace))

    def get(self, name: str, namespace: str = "default") -> Sweep | None:
        """The sweep, None where it is gone."""
        text = self.cluster.kubectl("get", "trainsweep", name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return Sweep(json.loads(text)) if text.strip() else None

    def wait(
        self,
        name: str,
        what: str,
        probe: Callable[[Sweep], object],
        timeout: float = PATIENCE,
        namespace: str = "default",
    ) -> Sweep:
        """Polls until `probe` is true of the sweep; fails with the whole status. An API server without breath is asked again."""
        until = time.monotonic() + timeout
        found: Sweep | None = None
        while time.monotonic() < until:
            try:
                found = self.get(name, namespace)
            except DevClusterError as error:
                if "Unable to connect to the server" not in str(error):
                    raise
                time.sleep(5)
                continue
            assert found is not None, f"{name} vanished while waiting for {what}"
            if probe(found):
                return found
            time.sleep(1)
        raise AssertionError(f"{name}: {what} not within {timeout} s\n{found}\n{self.describe(name, namespace)}")

    def reported(self, name: str, timeout: float = PATIENCE, namespace: str = "default") -> Sweep:
        """Waits for the first report, seen in the driver's own heartbeat: the status follows up to 30 s later."""

        def seen(sweep: Sweep) -> bool:
            return bool(sweep.status.get("runURI")) and self.progress(sweep).get("best") is not None

        return self.wait(name, "a report", seen, timeout, namespace)

    def progress(self, sweep: Sweep) -> dict[str, Any]:
        """The driver's heartbeat, {} before its first."""
        try:
            return self.document(sweep, "progress.json")
        except self.s3.exceptions.NoSuchKey:
            return {}

    def receipted(self, sweep: Sweep, timeout: float = PATIENCE) -> dict[str, Any]:
        """Waits until the driver waits for its verdict; the heartbeat then names the receipt's digest."""
        until = time.monotonic() + timeout
        found: dict[str, Any] = {}
        while time.monotonic() < until:
            found = self.progress(sweep)
            if found.get("phase") == "WaitingForVerdict":
                return found
            time.sleep(0.5)
        raise AssertionError(f"no receipt within {timeout} s: {found}\n{sweep}")

    def finished(self, name: str, timeout: float = PATIENCE, namespace: str = "default") -> Sweep:
        """Waits until the sweep is terminal."""
        return self.wait(name, "Finished", lambda s: s.condition("Finished")[0] == "True", timeout, namespace)

    def released(self, name: str, timeout: float = PATIENCE, namespace: str = "default") -> Sweep:
        """Waits until its last pod is gone."""
        return self.wait(name, "Released", lambda s: s.condition("Released")[0] == "True", timeout, namespace)

    def describe(self, name: str, namespace: str = "default") -> str:
        """What a person would look at next."""
        parts = []
        for args in (
            ("get", "pods,rayjobs,rayclusters,trainsweepholds", "-n", namespace, "-l", f"trainsweep.io/sweep={name}"),
            ("get", "events", "-n", namespace, "--sort-by=.lastTimestamp"),
            ("logs", "-n", sweeps.NAMESPACE, "deployment/trainsweep", "--tail=40"),
        ):
            try:
                parts.append(self.cluster.kubectl(*args)[-4000:])
            except DevClusterError as error:
                parts.append(str(error))
        return "\n".join(parts)

    def delete(self, name: str, namespace: str = "default", cascade: str = "background", wait: bool = False) -> None:
        """kubectl delete."""
        self.cluster.kubectl(
            "delete",
            "trainsweep",
            name,
            "-n",
            namespace,
            f"--cascade={cascade}",
            f"--wait={'true' if wait else 'false'}",
        )

    # ------------------------------------------------------------------ children

    def items(self, kind: str, name: str, namespace: str = "default") -> list[dict[str, Any]]:
        """The sweep's children of a kind, found by label."""
        text = self.cluster.kubectl("get", kind, "-n", namespace, "-l", f"trainsweep.io/sweep={name}", "-o", "json")
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    def head(self, name: str, namespace: str = "default") -> dict[str, Any]:
        """Its head pod."""
        return next(
            p for p in self.items("pods", name, namespace) if p["metadata"]["labels"].get("ray.io/node-type") == "head"
        )

    # ------------------------------------------------------------------ the store

    def prefix(self, sweep: Sweep) -> str:
        """Key prefix of its run, with a slash at the end."""
        return str(sweep.status["runURI"]).removeprefix(f"s3://{BUCKET}/") + "/"

    def keys(self, prefix: str) -> dict[str, int]:
        """Keys below a prefix with their sizes, directory markers left out."""
        found: dict[str, int] = {}
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix):
            found |= {o["Key"]: o["Size"] for o in page.get("Contents", []) if not o["Key"].endswith("/")}
        return found

    def read(self, key: str) -> bytes:
        """An object's bytes."""
        body: bytes = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body

    def document(self, sweep: Sweep, name: str) -> dict[str, Any]:
        """A JSON document of the run."""
        found: dict[str, Any] = json.loads(self.read(self.prefix(sweep) + name))
        return found

    def records(self, sweep: Sweep) -> list[dict[str, Any]]:
        """The lines of trials.jsonl."""
        return [
            json.loads(x) for x in self.read(self.prefix(sweep) + "trials.jsonl").decode().splitlines() if x.strip()
        ]

    # ------------------------------------------------------------------ the operator

    @contextmanager
    def operator_away(self) -> Iterator[None]:
        """No operator inside the block."""
        self.cluster.kubectl("scale", "deployment/trainsweep", "-n", sweeps.NAMESPACE, "--replicas=0")
        self.cluster.kubectl(
            "wait",
            "pod",
            "-n",
            sweeps.NAMESPACE,
            "-l",
            "app.kubernetes.io/name=trainsweep",
            "--for=delete",
            "--timeout=60s",
        )
        try:
            yield
        finally:
            self.cluster.kubectl("scale", "deployment/trainsweep", "-n", sweeps.NAMESPACE, "--replicas=1")
            self.rollout()

    @contextmanager
    def operator_env(self, **env: str) -> Iterator[None]:
        """The operator with other environment variables inside the block."""
        self.cluster.kubectl(
            "set", "env", "deployment/trainsweep", "-n", sweeps.NAMESPACE, *(f"{k}={v}" for k, v in env.items())
        )
        self.rollout()
        try:
            yield
        finally:
            self.cluster.kubectl("set", "env", "deployment/trainsweep", "-n", sweeps.NAMESPACE, *(f"{k}-" for k in env))
            self.rollout()

    def rollout(self) -> None:
        """Waits for the operator."""
        self.cluster.kubectl("rollout", "status", "deployment/trainsweep", "-n", sweeps.NAMESPACE, "--timeout=120s")

    def restarts(self) -> int:
        """Restarts of the operator's container."""
        text = self.cluster.kubectl(
            "get", "pods", "-n", sweeps.NAMESPACE, "-l", "app.kubernetes.io/name=trainsweep", "-o", "json"
        )
        return sum(
            c["restartCount"] for p in json.loads(text)["items"] for c in p["status"].get("containerStatuses", [])
        )
