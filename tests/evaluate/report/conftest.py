"""One complete study, reported once for all tests that only look; and a browser to look with."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evaluate.report.studies import folder

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with its reports."""
    from outpace.evaluate.report import write

    made = folder(tmp_path_factory.mktemp("study"))
    write(made)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium, or a skip that says what is missing; one a module, as its event loop stays."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from playwright.sync_api import sync_playwright

    from server.page.browser import EXECUTABLE, FLAGS

    if EXECUTABLE is None:
        pytest.skip("there is no chromium on this machine; apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(FLAGS))
        yield opened
        opened.close()
