"""One browser for all tests here; a machine without one installs it, or says what to do and fails."""

import pytest_asyncio

from tests.browser.chromium import Browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def page():
    """A tab. What an earlier test left in it is forgotten when the next page is opened."""
    async with Browser() as tab:
        yield tab
