"""The API server double does what a real one does (tests/integration/api/test_it_conformance.py asks that one)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests import conformance_cases
from tests.simulation import driver
from tests.simulation.apiserver import Server
from trainjobs.outcome import exit_code
from trainsweep.contract.documents import FailureReason, Outcome
from trainsweep.runtime.kube import Kind, NotFound, Object


class Plain:
    """The kube port over the double, without faults."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Object:
        return self._server.get(kind, name)

    async def page(
        self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0, token: str = ""
    ) -> tuple[list[Object], str]:
        return self._server.page(kind, labels, limit, token)

    async def create(self, kind: Kind, body: Mapping[str, Any], namespace: str = "") -> Object:
        return self._server.create(kind, body)

    async def merge_patch(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        return self._server.patch(kind, name, body)

    async def put_status(self, kind: Kind, name: str, body: Mapping[str, Any], namespace: str = "") -> Object:
        return self._server.put_status(kind, name, body)

    async def delete(self, kind: Kind, name: str, namespace: str = "", *, uid: str = "") -> None:
        self._server.delete(kind, name, uid=uid)


class DoubleDoor:
    """See `conformance_cases.Door`."""

    namespace = "team"

    def __init__(self) -> None:
        self.server = Server(lambda: 1_750_000_000.0, lambda plural, before, after: None)
        self.kube: Any = Plain(self.server)

    async def delete(self, kind: Kind, name: str, policy: str) -> None:
        self.server.delete(kind, name, policy=policy)

    async def wait(self, holds: Callable[[], Awaitable[bool]]) -> None:
        while self.server.collect():
            pass
        assert await holds()


@pytest.mark.parametrize("case", conformance_cases.CASES, ids=lambda case: case.__name__)
async def test_double_conforms(case: Callable[[conformance_cases.Door], Awaitable[None]]) -> None:
    await case(DoubleDoor())


def test_driver_double_ends_with_the_codes_of_the_driver() -> None:
    for outcome in Outcome:
        for reason in ("", "Signal", *map(str, FailureReason)):
            for lost in (False, True):
                assert driver.code_of(outcome, reason, lost=lost) == exit_code(outcome, reason, lost=lost)


async def test_compacted_list_cannot_be_gone_on_with() -> None:
    door = DoubleDoor()
    for number in range(3):
        await conformance_cases.make(door, conformance_cases.HOLD, f"h{number}")
    _, token = door.server.page(conformance_cases.HOLD, limit=2)
    door.server.compact()
    with pytest.raises(NotFound, match="too old"):
        door.server.page(conformance_cases.HOLD, limit=2, token=token)
