"""The conformance suite of stores against the double that the unit tests stand on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store_conformance import *  # noqa: F403  # the suite
from tests.store_conformance import Server

pytestmark = pytest.mark.slow


@pytest.fixture
def server(s3_endpoint: str, s3_clients: tuple[Any, Any]) -> Server:
    return Server(
        s3_endpoint, s3_clients[0], authenticates=False, keeps_checksums=False, tells_parts=False, dates_uploads=False
    )
