"""One server for all tests that change nothing of it."""

from collections.abc import Iterator

import pytest

from server.live import Live, running


@pytest.fixture(scope="session")
def server() -> Iterator[Live]:
    """The small model; every test leaves it idle."""
    with running() as live:
        yield live
        live.idle()
