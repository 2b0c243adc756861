"""A plain client of the API server for doubles and tests: paths and dicts, certificates from a kubeconfig."""

from __future__ import annotations

import base64
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3
import yaml

from trainsweep.runtime.kube import Kind
from trainsweep.runtime.kube_client import path_of

Object = dict[str, Any]
_log = logging.getLogger(__name__)

MERGE, JSON_PATCH, APPLY, STRATEGIC = (
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
)


BUSY_SECONDS = 120.0


class ApiError(Exception):
    """An answer of 400 and above."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(f"HTTP {status}: {message}")


class Api:
    """One user of the API server."""

    def __init__(self, kubeconfig: Path, agent: str) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._folder = tempfile.TemporaryDirectory()
        self.server: str = cluster["server"]
        self.ca = self._file(cluster, "certificate-authority")
        self._agent = agent
        self._pool = urllib3.PoolManager(
            maxsize=32,
            ca_certs=str(self.ca),
            cert_file=str(self._file(user, "client-certificate")),
            key_file=str(self._file(user, "client-key")),
            retries=False,
            timeout=urllib3.Timeout(connect=15, read=60),
        )

    def _file(self, part: Mapping[str, str], key: str) -> Path:
        if key in part:
            return Path(part[key])
        path = Path(self._folder.name) / key
        path.write_bytes(base64.b64decode(part[f"{key}-data"]))
        path.chmod(0o600)
        return path

    def call(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Object:
        """One request. A read that a busy server did not answer is made again: it says nothing about the operator."""
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return self._once(method, path, body, content)
            except (urllib3.exceptions.HTTPError, ApiError) as error:
                passing = not isinstance(error, ApiError) or error.status in (429, 500, 503, 504)
                if method != "GET" or not passing or time.monotonic() > until:
                    raise
            time.sleep(1)

    def _once(self, method: str, path: str, body: Any, content: str) -> Object:
        answer = self._pool.request(
            method,
            self.server + path,
            body=None if body is None else json.dumps(body),
            headers={"User-Agent": self._agent, "Content-Type": content, "Accept": "application/json"},
        )
        found = json.loads(answer.data) if answer.data else {}
        if answer.status >= 400:
            raise ApiError(answer.status, str(found.get("message", answer.data[:300])))
        return found

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """An object, None where it is not there."""
        try:
            return self.call("GET", path_of(kind, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> list[Object]:
        """Objects by label selector."""
        query = f"?labelSelector={labels}" if labels else ""
        return list(self.call("GET", path_of(kind, namespace) + query)["items"])

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        """POST."""
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        try:
            return self.call("POST", path_of(kind, namespace), head | dict(body))
        except urllib3.exceptions.HTTPError:
            # It may have been made although nobody said so.
            found = self.get(kind, body["metadata"]["name"], namespace)
            return found or self.call("POST", path_of(kind, namespace), head | dict(body))

    def patch(
        self, kind: Kind, name: str, body: Any, namespace: str = "", *, sub: str = "", content: str = MERGE
    ) -> Object:
        """PATCH, a merge patch unless said otherwise."""
        return self.call("PATCH", path_of(kind, namespace, name, sub), body, content)

    def apply(self, body: Mapping[str, Any], path: str) -> Object:
        """Server-side apply of an object under a path."""
        return self.call("PATCH", f"{path}?fieldManager=integration-tests&force=true", body, APPLY)

    def put_status(self, kind: Kind, body: Object) -> Object:
        """PUT of the status, conditional on the body's resourceVersion."""
        meta = body["metadata"]
        return self.call("PUT", path_of(kind, meta.get("namespace", ""), meta["name"], "status"), body)

    def delete(self, kind: Kind, name: str, namespace: str = "", *, policy: str = "Background") -> None:
        """DELETE; what is not there is no error."""
        try:
            self.call("DELETE", path_of(kind, namespace, name), {"propagationPolicy": policy})
        except ApiError as error:
            if error.status != 404:
                raise

    def stream(self, path: str) -> Iterator[Object]:
        """Events of a watch until the server ends it."""
        answer = self._pool.request(
            "GET",
            self.server + path,
            headers={"User-Agent": self._agent},
            preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=60),
        )
        try:
            rest = b""
            for piece in answer.stream(65536, decode_content=True):
                *lines, rest = (rest + piece).split(b"\n")
                yield from (json.loads(line) for line in lines if line.strip())
        finally:
            answer.close()


class Mirror:
    """What a watch has shown of a kind, kept up to date in the background."""

    def __init__(self, api: Api, kind: Kind, labels: str = "", on_change: Callable[[], None] | None = None) -> None:
        self._api, self._kind, self._labels = api, kind, labels
        self._on_change = on_change
        self._items: dict[tuple[str, str], Object] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"mirror-{kind.plural}")

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Ends at the next event or time-out; the thread is a daemon."""
        self._stop.set()

    def items(self) -> list[Object]:
        """All objects as last seen."""
        with self._lock:
            return list(self._items.values())

    def get(self, namespace: str, name: str) -> Object | None:
        """One object as last seen."""
        with self._lock:
            return self._items.get((namespace, name))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (ApiError, urllib3.exceptions.HTTPError, ValueError, KeyError) as error:
                if not self._stop.is_set():
                    _log.debug("watching %s: %s", self._kind.plural, error)
            self._stop.wait(0.3)

    def _follow(self) -> None:
        path = path_of(self._kind)
        query = f"labelSelector={self._labels}&" if self._labels else ""
        found = self._api.call("GET", f"{path}?{query}")
        with self._lock:
            self._items = {self._key(o): o for o in found["items"]}
        self._changed()
        version = found["metadata"]["resourceVersion"]
        for event in self._api.stream(f"{path}?{query}watch=true&resourceVersion={version}&timeoutSeconds=50"):
            if self._stop.is_set():
                return
            body = event["object"]
            with self._lock:
                if event["type"] == "DELETED":
                    self._items.pop(self._key(body), None)
                elif event["type"] in ("ADDED", "MODIFIED"):
                    self._items[self._key(body)] = body
                else:
                    return
            self._changed()

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()

    @staticmethod
    def _key(body: Object) -> tuple[str, str]:
        return body["metadata"].get("namespace", ""), body["metadata"]["name"]
