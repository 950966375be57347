"""One browser for a module: Playwright keeps an event loop in this thread while it lives, which
tests elsewhere that run their own would trip over."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium, or a skip that says what is missing."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    from playwright.sync_api import sync_playwright

    from server.page.browser import EXECUTABLE, FLAGS

    if EXECUTABLE is None:
        pytest.skip("there is no chromium on this machine; apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=list(FLAGS))
        yield browser
        browser.close()
