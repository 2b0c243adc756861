"""The port of `kube` over `kubernetes.aio`: plain dicts, time-outs, a token bucket for writes, errors as types.

Only ApiClient is used, not the typed APIs: for a handful of known kinds a path and a dict are all that is needed, and
nothing of a foreign object is lost by a model that does not know it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.config import load_incluster_config, load_kube_config

from trainsweep.core.fields import items, mapping, text
from trainsweep.runtime.kube import POD, Conflict, Denied, Invalid, Kind, KubeError, NotFound, Object, Unavailable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
READ_SECONDS, WRITE_SECONDS = 15.0, 20.0
_REVIEW = Kind("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)


class TokenBucket:
    """At most `rate` writes a second, `burst` at once. Kopf and the client have no limit of their own."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._tokens, self._at = float(burst), 0.0
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Waits for a token; waiters are served in order."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            now = loop.time()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) if self._at else self._burst
            self._at = now
            if self._tokens < 1.0:
                await asyncio.sleep((1.0 - self._tokens) / self._rate)
                self._at = loop.time()
                self._tokens = 1.0
            self._tokens -= 1.0


def error_of(status: int, body: str | None, retry_after: str | None = None) -> KubeError:
    """The type of an HTTP status, with the message of the `v1.Status` in the body."""
    message = (body or "").strip() or f"HTTP {status}"
    fields: set[str] = set()
    try:
        parsed = json.loads(message)
        if isinstance(parsed, dict) and isinstance(parsed.get("message"), str):
            message = parsed["message"]
            fields = {
                text(mapping(cause).get("field"), 64) for cause in items(mapping(parsed.get("details")).get("causes"))
            }
    except (ValueError, RecursionError):
        pass
    if status in (404, 410):
        return NotFound(message)
    # A patch that names another object's uid: 409 for what is built in, "field is immutable" for a custom resource.
    if status == 409 or (status == 422 and fields == {"metadata.uid"}):
        return Conflict(message)
    if status in (401, 403):
        # A namespace that is being deleted answers 403 to creates: as final as a missing right.
        return Denied(message)
    if status in (400, 405, 406, 413, 415, 422):
        return Invalid(message)
    seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
    return Unavailable(message, seconds)


def path_of(kind: Kind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The resource's path. Every segment is quoted: a name is never trusted to be a name."""
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts.append(kind.plural)
    parts += [p for p in (name, subresource) if p]
    return "/" + "/".join(quote(p, safe="") for p in parts)


async def load_configuration() -> Configuration:
    """In a pod the ServiceAccount, elsewhere the kubeconfig ($KUBECONFIG or the default path)."""
    configuration = Configuration()
    if (SERVICE_ACCOUNT / "token").exists():
        load_incluster_config(client_configuration=configuration)
    else:
        # Said explicitly: the client's own default is read once, when it is imported.
        await load_kube_config(config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration)
    return configuration


class KubeClient:
    """The adapter. `last_success` is the time.monotonic() of the last answer that the API server gave."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        writes_per_second: float = 20.0,
        burst: int = 40,
        on_call: Callable[[str, str, str], None] | None = None,
    ) -> None:
        """`on_call` is told (verb, plural, outcome) of every call."""
        # The client's default is 100 connections; a pass makes its calls one by one, so workers bound them anyway.
        self._client = ApiClient(configuration)
        self._client.set_default_header("User-Agent", "trainsweep-operator")
        self._bucket = TokenBucket(writes_per_second, burst)
        self._on_call = on_call
        self.last_success = time.monotonic()

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        """See `Kube`."""
        return await self._call("GET", path_of(kind, namespace, name), kind)

    async def page(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, token: str = ""
    ) -> tuple[list[Object], str]:
        """See `Kube`."""
        query = [("labelSelector", labels), ("fieldSelector", fields), ("limit", limit or ""), ("continue", token)]
        found = await self._call(
            "GET", path_of(kind, namespace), kind, query=[(k, v) for k, v in query if v], seconds=2 * READ_SECONDS
        )
        items = found.get("items") or []
        meta = found.get("metadata") or {}
        return [i for i in items if isinstance(i, dict)], str(meta.get("continue") or "")

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        """See `Kube`."""
        return await self._call("POST", path_of(kind, namespace), kind, body=body)

    async def merge_patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        """See `Kube`."""
        return await self._call(
            "PATCH", path_of(kind, namespace, name), kind, body=body, content_type="application/merge-patch+json"
        )

    async def put_status(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        """See `Kube`."""
        return await self._call("PUT", path_of(kind, namespace, name, "status"), kind, body=body)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        """See `Kube`."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._call("DELETE", path_of(kind, namespace, name), kind, body=options)

    async def allowed(self, verb: str, kind: Kind, namespace: str = "", subresource: str = "") -> bool:
        """See `Kube`."""
        wanted = {"verb": verb, "group": kind.group, "resource": kind.plural, "namespace": namespace}
        if subresource:
            wanted["subresource"] = subresource
        body = {
            "apiVersion": _REVIEW.api_version,
            "kind": _REVIEW.kind,
            "spec": {"resourceAttributes": wanted},
        }
        answer = await self._call("POST", path_of(_REVIEW), _REVIEW, body=body, free=True)
        return bool((answer.get("status") or {}).get("allowed"))

    async def served(self, kinds: Sequence[Kind]) -> list[Kind]:
        """See `Kube`."""
        known: dict[tuple[str, str], set[str]] = {}
        for kind in kinds:
            where = (kind.group, kind.version)
            if where in known:
                continue
            path = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
            try:
                found = await self._call("GET", path, kind)
            except NotFound:
                found = {}
            known[where] = {str(r.get("name")) for r in found.get("resources") or []}
        return [k for k in kinds if k.plural not in known[(k.group, k.version)]]

    async def log(self, pod: str, container: str, namespace: str, lines: int) -> str:
        """See `Kube`. Only people read logs, with `trainsweep why`; the operator has no right to."""
        query: list[tuple[str, Any]] = [("container", container), ("tailLines", lines), ("limitBytes", 262_144)]
        answer = await self._call("GET", path_of(POD, namespace, pod, "log"), POD, query=query, kind_of_answer="str")
        return str(answer.get("text") or "")

    async def schema(self, kind: Kind) -> Mapping[str, Any] | None:
        """See `Kube`."""
        try:
            # Every authenticated user may read this (system:discovery): no right on CRDs is needed.
            found = await self._call("GET", f"/openapi/v3/apis/{kind.group}/{kind.version}", kind)
        except (NotFound, Denied):
            return None
        for schema in ((found.get("components") or {}).get("schemas") or {}).values():
            names = schema.get("x-kubernetes-group-version-kind") if isinstance(schema, dict) else None
            if any(n.get("kind") == kind.kind and n.get("group") == kind.group for n in names or []):
                return dict(schema)
        return None

    async def _call(
        self,
        method: str,
        path: str,
        kind: Kind,
        *,
        query: list[tuple[str, Any]] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        seconds: float | None = None,
        free: bool = False,
        kind_of_answer: str = "object",
    ) -> Object:
        write = method != "GET"
        if write and not free:
            await self._bucket.take()
        outcome = "ok"
        try:
            answer = await self._client.call_api(
                path,
                method,
                query_params=query or [],
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=dict(body) if body is not None else None,
                response_types_map=dict.fromkeys((200, 201, 202), kind_of_answer),
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
                _request_timeout=seconds or (WRITE_SECONDS if write else READ_SECONDS),
            )
        except ApiException as error:
            headers = error.headers or {}
            body_text = error.body if isinstance(error.body, str) else None
            failure = error_of(int(error.status or 0), body_text or error.reason, headers.get("Retry-After"))
            if not isinstance(failure, Unavailable):
                self.last_success = time.monotonic()
            outcome = type(failure).__name__
            raise failure from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # ValueError: an answer that is no JSON, from a proxy in between.
            outcome = "Unavailable"
            raise Unavailable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        else:
            self.last_success = time.monotonic()
            if kind_of_answer == "str":
                return {"text": answer}
            return answer if isinstance(answer, dict) else {}
        finally:
            if self._on_call is not None:
                self._on_call(method, kind.plural, outcome)
