from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from trainsweep.runtime.kube import (
    EVENT,
    POD,
    RAY_JOB,
    SWEEP,
    SWEEP_CLASS,
    Conflict,
    Denied,
    Invalid,
    Kind,
    KubeError,
    NotFound,
    Unavailable,
)
from trainsweep.runtime.kube_client import KubeClient, TokenBucket, error_of, path_of


class Server:
    """Answers with what the test says and keeps what it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], Any, str]] = []
        self.answer: tuple[int, Any, dict[str, str]] = (200, {}, {})

    async def handle(self, request: web.Request) -> web.Response:
        text = await request.text()
        body = json.loads(text) if text else None
        self.seen.append((request.method, request.path, dict(request.query), body, request.content_type))
        status, answer, headers = self.answer
        if isinstance(answer, str):
            return web.Response(text=answer, status=status, headers=headers)
        return web.json_response(answer, status=status, headers=headers)


@pytest.fixture
async def world() -> AsyncIterator[tuple[Server, KubeClient]]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    configuration.api_key["BearerToken"] = "bearer secret"
    client = KubeClient(configuration)
    yield server, client
    await client.close()
    await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Invalid),
        (401, Denied),
        (403, Denied),
        (404, NotFound),
        (409, Conflict),
        (410, NotFound),
        (413, Invalid),
        (422, Invalid),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_every_status_has_its_type_and_the_servers_words(
    world: tuple[Server, KubeClient], status: int, error: type[KubeError]
) -> None:
    server, client = world
    server.answer = (status, {"kind": "Status", "message": "the server's words"}, {"Retry-After": "7"})
    with pytest.raises(KubeError) as found:
        await client.get(SWEEP, "x", "team-a")
    assert type(found.value) is error
    assert found.value.message == "the server's words"
    if isinstance(found.value, Unavailable):
        assert found.value.retry_after == 7.0


async def test_a_body_that_is_no_status_and_an_answer_that_is_no_json(world: tuple[Server, KubeClient]) -> None:
    server, client = world
    server.answer = (502, "<html>bad gateway</html>", {})
    with pytest.raises(Unavailable, match="bad gateway"):
        await client.get(SWEEP, "x", "team-a")
    server.answer = (200, "<html>welcome</html>", {})
    assert await client.get(SWEEP, "x", "team-a") == {}


async def test_no_connection_is_unavailable_and_the_last_success_stays() -> None:
    configuration = Configuration()
    configuration.host = "http://127.0.0.1:9"
    client = KubeClient(configuration)
    before = client.last_success
    with pytest.raises(Unavailable):
        await client.get(SWEEP, "x", "team-a")
    assert client.last_success == before
    await client.close()


async def test_verbs_reach_their_paths(world: tuple[Server, KubeClient]) -> None:
    server, client = world
    server.answer = (200, {"items": [{"a": 1}, "odd"], "metadata": {"continue": "next"}}, {})
    found = await client.page(POD, "team-a", labels="a=b", fields="x=y", limit=5, token="t")
    assert found == ([{"a": 1}], "next")
    await client.create(RAY_JOB, {"metadata": {"name": "x"}}, "team-a")
    await client.merge_patch(RAY_JOB, "x", {"spec": {"suspend": None}}, "team-a")
    await client.put_status(SWEEP, "x", {"status": {}}, "team-a")
    await client.delete(RAY_JOB, "x", "team-a", uid="u1")
    assert server.seen == [
        (
            "GET",
            "/api/v1/namespaces/team-a/pods",
            {"labelSelector": "a=b", "fieldSelector": "x=y", "limit": "5", "continue": "t"},
            None,
            "application/json",
        ),
        (
            "POST",
            "/apis/ray.io/v1/namespaces/team-a/rayjobs",
            {},
            {"metadata": {"name": "x"}},
            "application/json",
        ),
        (
            "PATCH",
            "/apis/ray.io/v1/namespaces/team-a/rayjobs/x",
            {},
            {"spec": {"suspend": None}},
            "application/merge-patch+json",
        ),
        (
            "PUT",
            "/apis/trainsweep.io/v1alpha1/namespaces/team-a/trainsweeps/x/status",
            {},
            {"status": {}},
            "application/json",
        ),
        (
            "DELETE",
            "/apis/ray.io/v1/namespaces/team-a/rayjobs/x",
            {},
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "u1"},
            },
            "application/json",
        ),
    ]


def test_a_name_is_never_a_path() -> None:
    assert path_of(SWEEP, "../x", "a/b?c") == "/apis/trainsweep.io/v1alpha1/namespaces/..%2Fx/trainsweeps/a%2Fb%3Fc"
    assert path_of(SWEEP_CLASS, "ignored", "c") == "/apis/trainsweep.io/v1alpha1/trainsweepclasses/c"
    assert path_of(EVENT) == "/api/v1/events"


async def test_discovery_reviews_and_schema(world: tuple[Server, KubeClient]) -> None:
    server, client = world
    server.answer = (200, {"resources": [{"name": "trainsweeps"}, {"name": "trainsweeps/status"}]}, {})
    assert await client.served([SWEEP, SWEEP_CLASS]) == [SWEEP_CLASS]
    server.answer = (404, {"message": "no such group"}, {})
    assert await client.served([RAY_JOB]) == [RAY_JOB]
    server.answer = (201, {"status": {"allowed": True}}, {})
    assert await client.allowed("update", SWEEP, "team-a", "status")
    assert server.seen[-1][3]["spec"]["resourceAttributes"] == {
        "verb": "update",
        "group": "trainsweep.io",
        "resource": "trainsweeps",
        "subresource": "status",
        "namespace": "team-a",
    }
    server.answer = (201, {"status": {"allowed": False}}, {})
    assert not await client.allowed("get", POD)
    mark = {"x-kubernetes-group-version-kind": [{"group": "ray.io", "kind": "RayJob", "version": "v1"}]}
    schemas = {"io.ray.v1.RayJobList": {}, "io.ray.v1.RayJob": {**mark, "properties": {"spec": {}}}}
    server.answer = (200, {"components": {"schemas": schemas}}, {})
    assert await client.schema(RAY_JOB) == schemas["io.ray.v1.RayJob"]
    assert await client.schema(Kind("ray.io", "v1", "rayservices", "RayService")) is None


async def test_writes_are_limited_and_reads_are_not() -> None:
    loop = asyncio.get_running_loop()
    bucket = TokenBucket(50.0, 5)
    started = loop.time()
    for _ in range(5):
        await bucket.take()
    assert loop.time() - started < 0.05
    for _ in range(5):
        await bucket.take()
    assert loop.time() - started >= 0.09


def test_a_patch_that_names_another_objects_uid_is_a_conflict_whatever_its_status() -> None:
    """Seen on a real API server: 409 for pods, 422 with this one cause for custom resources."""

    def invalid(*fields: str) -> str:
        causes = [{"field": f, "message": "field is immutable"} for f in fields]
        return json.dumps({"message": "it is invalid", "details": {"causes": causes}})

    assert isinstance(error_of(422, invalid("metadata.uid")), Conflict)
    assert isinstance(error_of(422, invalid("metadata.uid", "spec.x")), Invalid)
    assert isinstance(error_of(422, invalid()), Invalid)
    assert isinstance(error_of(422, "[1]"), Invalid)
