"""The page in a real browser: complete, quiet, and readable on a phone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evaluate.report.studies import begun
from outpace.evaluate.report import write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PLOTS = 8  # pairs, blocks, three distributions, positions, lengths, collapse
WIDE, PHONE = 1280, 360


@contextmanager
def shown(browser: "Browser", path: Path, *, width: int, dark: bool = False) -> Iterator["Page"]:
    """The page; it fails if the page complained or asked for anything."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light"
    )
    context.set_default_timeout(60_000)
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    url = (path / "report.html").as_uri()
    page.goto(url)
    yield page
    assert complaints == []
    assert [u for u in asked if u.partition("#")[0] != url] == []
    context.close()


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("dark", [False, True])
def test_every_plot_is_drawn_and_nothing_sticks_out(
    browser: "Browser", reported: Path, width: int, dark: bool
) -> None:
    with shown(browser, reported, width=width, dark=dark) as page:
        plots = page.locator("svg.plot")
        assert plots.count() == PLOTS
        for i in range(PLOTS):
            box = plots.nth(i).bounding_box()
            assert box is not None
            assert box["width"] > 200
            assert box["height"] > 120
            assert plots.nth(i).locator(".mark, .curve").count() > 0
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) == 0
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate(overflow) == 0, "nor with everything unfolded"


def test_text_on_a_phone_is_large_enough(browser: "Browser", reported: Path) -> None:
    """Type inside plots shrinks with them; what is smaller than 8 px nobody reads."""
    script = """() => Math.min(...[...document.querySelectorAll('svg.plot text')].map(t =>
        parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getScreenCTM().a))"""
    with shown(browser, reported, width=PHONE) as page:
        assert page.evaluate(script) >= 8
        size = "parseFloat(getComputedStyle(document.body).fontSize)"
        assert page.evaluate(size) >= 15


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_their_ground(browser: "Browser", reported: Path, dark: bool) -> None:
    """WCAG 2.2 AA: 4.5 to 1, of the colours that text is set in."""
    script = """names => {
      const lum = c => { const v = c.match(/\\w\\w/g).map(h => parseInt(h, 16) / 255)
        .map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
        return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
      const of = n => getComputedStyle(document.documentElement).getPropertyValue(n).trim();
      const back = lum(of('--ground'));
      return names.map(n => { const [a, b] = [lum(of(n)), back].sort((x, y) => y - x);
        return (a + .05) / (b + .05) }) }"""
    names = ["--ink", "--quiet", "--accent", "--lost"]
    with shown(browser, reported, width=WIDE, dark=dark) as page:
        ratios = dict(zip(names, page.evaluate(script, names), strict=True))
        assert all(ratio >= 4.5 for ratio in ratios.values()), ratios


def test_a_mark_leads_to_its_record(browser: "Browser", reported: Path) -> None:
    with shown(browser, reported, width=WIDE) as page:
        link = page.locator("svg.plot a").first
        target = link.get_attribute("href")
        assert target is not None
        row = page.locator(target)
        assert row.count() == 1
        assert not row.is_visible()
        page.evaluate("t => { location.hash = t }", target)
        row.wait_for(state="visible")
        assert "candidate" in row.inner_text()


def test_every_link_leads_somewhere(browser: "Browser", reported: Path) -> None:
    script = """() => [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))
        .filter(h => h && !document.getElementById(h.slice(1)))"""
    with shown(browser, reported, width=WIDE) as page:
        assert page.evaluate(script) == []


def test_it_prints(browser: "Browser", reported: Path) -> None:
    with shown(browser, reported, width=WIDE, dark=True) as page:
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        ground = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(ground) == "rgb(255, 255, 255)"
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_a_study_that_only_began_has_a_page_too(browser: "Browser", tmp_path: Path) -> None:
    made = begun(tmp_path)
    write(made)
    with shown(browser, made, width=PHONE) as page:
        assert page.locator("svg.plot").count() == 0
        assert "INCONCLUSIVE" in page.locator(".verdict").inner_text()
