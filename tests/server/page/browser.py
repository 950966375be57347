"""A page in a real browser, watched: what it asks of whom, and what it complains about."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, Request, Route, expect

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser")
# As root in a container; and nothing of the browser's own on the network.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@dataclass(slots=True)
class Watched:
    """A page and what it did. urls: everything it asked for; strays: not of its server."""

    page: Page
    origin: str
    urls: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def see(self, selector: str, pattern: Any) -> None:
        """Wait until an element's text matches."""
        expect(self.page.locator(selector)).to_have_text(pattern)

    def drawn(self, selector: str) -> None:
        """Wait until a plot has such a shape, level ones included (a browser's tools call a line
        without height hidden), and it has a colour."""
        expect(self.page.locator(selector)).not_to_have_count(0)
        assert self.style(selector, "visibility") == "visible"
        assert "none" not in (self.style(selector, "display"), self.style(selector, "stroke"))

    def ask(self, prompt: str, *, guesses: str = "fixed:8", tokens: int = 60) -> str:
        """Try a prompt; the tokens' texts, joined, once the answer is complete."""
        page = self.page
        page.fill("#try-text", prompt)
        page.fill("#try-tokens", str(tokens))
        page.select_option("#try-speculation", guesses)
        page.click("#try-go")
        expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
        return "".join(page.locator("#answer .tok").all_text_contents())

    def style(self, selector: str, name: str) -> str:
        """A computed style."""
        script = "([s, n]) => getComputedStyle(document.querySelector(s)).getPropertyValue(n)"
        return str(self.page.evaluate(script, [selector, name]))

    def overflow_px(self) -> int:
        """By how much the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


@contextmanager
def watched(
    browser: Browser, url: str, *, width: int = 1280, theme: str = "light", opened: bool = True
) -> Iterator[Watched]:
    """A page of the server at url; requests to anybody else are cut and noted."""
    context = browser.new_context(
        viewport={"width": width, "height": 800},
        color_scheme="dark" if theme == "dark" else "light",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    found = Watched(page=page, origin=url)

    def asked(route: Route, request: Request) -> None:
        found.urls.append(request.url)
        if request.url.startswith(f"{url}/"):
            route.continue_()
        else:
            found.strays.append(request.url)
            route.abort()

    context.route("**/*", asked)
    page.on("console", lambda m: found.complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    try:
        if opened:
            page.goto(f"{url}/")
        yield found
    finally:
        context.close()
