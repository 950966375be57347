"""One complete study, reported once for all tests that only look; and a browser to look with."""

from pathlib import Path

import pytest

from evaluate.report.studies import folder
from server.page.conftest import browser

__all__ = ["browser", "reported"]


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its reports."""
    from outpace.evaluate.report import write

    made = folder(tmp_path_factory.mktemp("study"))
    write(made)
    return made
