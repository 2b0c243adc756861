"""A real API server and its garbage collector do what the simulation's double does: the same cases for both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests import conformance_cases
from tests.integration.apiserver import ApiServer
from trainsweep.runtime.kube import Kind
from trainsweep.runtime.kube_client import KubeClient, load_configuration, path_of

NAMESPACE = "conformance"
SECONDS = 60.0


class RealDoor:
    """See `conformance_cases.Door`."""

    namespace = NAMESPACE

    def __init__(self, api: ApiServer, kube: KubeClient) -> None:
        self._api = api
        self.kube: Any = kube

    async def delete(self, kind: Kind, name: str, policy: str) -> None:
        status, answer = self._api.call(
            "DELETE",
            path_of(kind, NAMESPACE, name),
            {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy},
        )
        assert status < 300, answer

    async def wait(self, holds: Callable[[], Awaitable[bool]]) -> None:
        until = time.monotonic() + SECONDS
        while not await holds():
            assert time.monotonic() < until, f"{holds.__name__} did not come in {SECONDS} s"
            await asyncio.sleep(0.2)


@pytest.fixture
async def door(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RealDoor]:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    status, answer = api.call("POST", "/api/v1/namespaces", body)
    assert status in (201, 409), answer
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
    kube = KubeClient(await load_configuration())
    yield RealDoor(api, kube)
    await kube.close()


@pytest.mark.parametrize("case", conformance_cases.CASES, ids=lambda case: case.__name__)
async def test_api_server_conforms(case: Callable[[conformance_cases.Door], Awaitable[None]], door: RealDoor) -> None:
    await case(door)
