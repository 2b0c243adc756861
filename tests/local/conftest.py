"""One Ray for all tests of a process: a start of Ray costs more than most of what is tested here."""

import pytest

from tests.local.cluster import running


@pytest.fixture(scope="session")
def cluster():
    """Address of the cluster."""
    with running() as ray:
        yield ray.address
