"""The live page in a real browser."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from outpace.server.settings import Settings
from server.live import Live, running
from server.page.load import busy, measuring_model
from server.words import worded_model

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import expect

from server.page.browser import Watched, watched

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.xdist_group("browser")
PROMPT = "one two three one two three one two"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running(measuring_model()) as server:
        yield server


def test_a_server_that_did_nothing_yet_explains_what_will_stand_where(browser: "Browser") -> None:
    with running(measuring_model()) as fresh, watched(browser, fresh.url) as seen:
        seen.see("#link", "live")
        seen.see("#now-title", "Idle.")
        for place, words in (
            ("#timeline", "Nothing ran"), ("#positions", "No rounds yet"),
            ("#latency", "No answer has ended"), ("#drafters", "made no guesses yet"),
            ("#decisions", "No decision yet"), ("#answer", "The answer appears here"),
            ("#stage-draft .io", "nothing yet"),
        ):  # fmt: skip
            seen.see(place, re.compile(words))
        assert not seen.complaints


def test_every_section_is_filled_while_requests_run(browser: "Browser", live: Live) -> None:
    with busy(live), watched(browser, live.url) as seen:
        seen.see("#running", "2")
        seen.see("#what", re.compile("words · .* · drafter lookup"))
        seen.see("#now-title", re.compile(r"Guessing (pays\.|does not pay now\.)|Not guessing now"))
        seen.see("#rate", re.compile(r"[1-9]"))
        seen.see("#per-round", re.compile(r"\d\.\d\d"))
        for stage in ("draft", "score", "accept", "resample", "repeat"):
            seen.see(f"#stage-{stage} .share", re.compile(r"[\d.]+ %"))
            seen.see(f"#stage-{stage} .io", re.compile(r"[\d,]+ → [\d,]+"))
        shares = seen.page.locator(".flow .share").all_text_contents()
        assert sum(float(share.rstrip(" %")) for share in shares) == pytest.approx(100, abs=3)
        seen.drawn("#timeline path.curve")
        seen.drawn("#timeline path.dashed")
        expect(seen.page.locator("#positions rect.bar").first).to_be_visible()
        seen.see("#now-gauge", re.compile(r"break-even \d+\.\d\d"))
        rows = seen.page.locator("#latency tbody tr")
        expect(rows).to_have_count(3)
        expect(rows.nth(2)).to_contain_text(re.compile(r"\d m?s"))
        seen.see("#drafters tbody th", "lookup")
        seen.see("#control", re.compile(r"switches? so far"))
        expect(seen.page.locator("#decisions li small").first).to_contain_text("request")
        assert not seen.complaints


def test_nothing_the_page_does_leaves_its_server(browser: "Browser", live: Live) -> None:
    with watched(browser, live.url) as seen:
        seen.see("#link", "live")
        seen.ask(PROMPT)
        assert not seen.strays
        assert not seen.complaints
        assert f"{live.url}/outpace/events" in seen.urls
        refused = seen.page.evaluate("fetch('https://example.org/').then(() => '', String)")
        assert "TypeError" in refused
        assert not seen.strays  # the policy held it, before any network


def test_a_tried_prompt_shows_which_tokens_were_kept_and_which_resampled(
    browser: "Browser", live: Live
) -> None:
    plain = live.chat(PROMPT, temperature=0, max_tokens=60, return_rounds=True,
                      speculation="fixed:8")["choices"][0]  # fmt: skip
    with watched(browser, live.url) as seen:
        seen.see("#link", "live")
        assert seen.ask(PROMPT) == plain["message"]["content"]
        page, rounds = seen.page, plain["rounds"]
        count = {kind: page.locator(f"#answer .tok.{kind}").count() for kind in ("kept", "own")}
        assert count["kept"] == sum(r["kept"] for r in rounds) > 0
        assert count["own"] > 0
        assert page.locator("#answer .gone").count() == count["own"]
        seen.see("#answer-sum", re.compile(rf"60 tokens in {len(rounds)} rounds.*guesses kept"))
        assert seen.style("#answer .tok.kept", "background-color") != seen.style(
            "#answer .tok.own", "background-color"
        )
        page.uncheck("#try-gone")
        expect(page.locator("#answer .gone").first).to_be_hidden()
        assert seen.ask(PROMPT, guesses="off") == plain["message"]["content"]
        assert page.locator("#answer .tok.free").count() == 60


def test_rounds_and_seconds_can_be_read_with_the_keyboard_alone(
    browser: "Browser", live: Live
) -> None:
    with watched(browser, live.url) as seen:
        seen.see("#link", "live")
        seen.ask(PROMPT)
        page = seen.page
        page.focus("#answer")
        page.keyboard.press("ArrowRight")
        seen.see("#round h3", re.compile("^Round 1:"))
        page.keyboard.press("ArrowRight")
        seen.see("#round h3", re.compile("^Round 2:"))
        seen.drawn("#timeline path.curve")
        page.focus("#timeline")
        page.keyboard.press("ArrowLeft")
        seen.see("#timeline-read", re.compile("tokens a round|no guesses"))
        page.focus("#try-text")
        reached = []
        for _ in range(7):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert reached == [
            "try-tokens", "try-temperature", "try-speculation", "try-gone", "try-go", "answer",
            reached[-1],
        ]  # fmt: skip


def test_what_comes_from_elsewhere_is_text_never_markup(browser: "Browser") -> None:
    nasty = "<img src=x onerror=alert(1)>"
    model = worded_model()
    model.name = nasty
    guess = {"text": nasty, "parent": -1, "kept": False, "drafter": nasty}
    delta = {"index": 0, "delta": {"content": nasty}, "finish_reason": "stop",
             "rounds": [{"texts": [nasty], "kept": 0, "guesses": [guess]}]}  # fmt: skip
    body = f"data: {json.dumps({'choices': [delta]})}\n\ndata: [DONE]\n\n"
    with running(model) as live, watched(browser, live.url, opened=False) as seen:
        page = seen.page
        page.route("**/v1/chat/completions", lambda route: route.fulfill(
            body=body, content_type="text/event-stream"))  # fmt: skip
        page.goto(f"{live.url}/")
        seen.see("#what", re.compile(re.escape(nasty)))
        assert seen.ask("anything") == nasty
        page.focus("#answer")
        page.keyboard.press("ArrowRight")
        seen.see("#round h3", re.compile(re.escape(nasty)))
        assert page.locator("img").count() == 1  # its own mark
        assert not seen.complaints


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_can_be_read_and_chosen(browser: "Browser", live: Live, theme: str) -> None:
    with watched(browser, live.url, theme=theme) as seen:
        seen.see("#link", "live")
        seen.ask(PROMPT)
        dark = theme == "dark"
        assert (_light(seen.style("body", "background-color")) < 0.2) == dark
        for what in ("body", ".quiet", ".lead", "#answer .tok.kept", "#answer .tok.own",
                     "#answer .gone", "#try-go"):  # fmt: skip
            assert _contrast(seen, what) >= 4.5, what
        toggle = seen.page.locator("#theme")
        for name in ("light", "dark"):
            toggle.click()
            expect(toggle).to_have_text(f"Theme: {name}")
            assert (_light(seen.style("body", "background-color")) < 0.2) == (name == "dark")
        seen.page.reload()
        expect(toggle).to_have_text("Theme: dark")


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_screens_need_no_sideways_scrolling(
    browser: "Browser", live: Live, width: int
) -> None:
    with busy(live), watched(browser, live.url, width=width) as seen:
        seen.see("#running", "2")
        seen.ask(PROMPT, tokens=120)
        seen.page.focus("#answer")
        for _ in range(5):
            seen.page.keyboard.press("ArrowRight")
        expect(seen.page.locator("#timeline svg")).to_be_visible()
        assert seen.overflow_px() <= 0
        for what in ("button", "input", "select", "textarea", "table", ".panel"):
            for item in seen.page.locator(what).all():
                box = item.bounding_box()
                assert box is None or (box["x"] >= 0 and box["x"] + box["width"] <= width), what


def test_with_keys_the_page_asks_for_one_and_keeps_it_to_this_tab(browser: "Browser") -> None:
    settings = Settings(port=0, api_keys=("open-sesame",))
    with running(worded_model(), settings) as live, watched(browser, live.url) as seen:
        page = seen.page
        expect(page.locator("#door")).to_be_visible()
        expect(page.locator("#page")).to_be_hidden()
        assert not seen.complaints  # it asked for nothing that would be refused
        page.fill("#door-key", "wrong")
        page.keyboard.press("Enter")
        seen.see("#door-error", re.compile("not one of this server"))
        page.fill("#door-key", "open-sesame")
        page.keyboard.press("Enter")
        seen.see("#link", "live")
        assert seen.ask(PROMPT)
        kept = page.evaluate("[JSON.stringify(localStorage), document.cookie, location.href]")
        assert "sesame" not in "".join([*kept, *seen.urls, page.content()])
        page.reload()
        seen.see("#link", "live")
        page.click("#forget")
        expect(page.locator("#door")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_it_says_when_the_server_is_gone_and_finds_it_again(browser: "Browser") -> None:
    with running(worded_model()) as first:
        port = int(first.url.rpartition(":")[2])
        context = watched(browser, first.url)
        seen = context.__enter__()
        seen.see("#link", "live")
        first.service.shutdown(0.0)
        seen.see("#now-title", re.compile("The server is (stopped|draining)"))
    try:
        expect(seen.page.locator("#link")).to_have_attribute("data-state", "lost")
        seen.see("#link", re.compile("trying again"))
        with running(worded_model(), Settings(port=port)) as second:
            seen.see("#link", "live")
            seen.see("#now-title", "Idle.")
            assert seen.ask(PROMPT)
            second.service.shutdown(0.0)
    finally:
        context.__exit__(None, None, None)


def test_a_refused_prompt_says_why(browser: "Browser", live: Live) -> None:
    with watched(browser, live.url) as seen:
        seen.see("#link", "live")
        seen.page.evaluate("document.getElementById('try-tokens').removeAttribute('min')")
        seen.ask(PROMPT, tokens=-3)
        seen.see("#answer-sum", re.compile("failed: .*max_tokens"))


def _rgb(colour: str) -> tuple[float, float, float, float]:
    found = [float(x) for x in re.findall(r"[\d.]+", colour)]
    red, green, blue, *alpha = found
    return red, green, blue, alpha[0] if alpha else 1.0


def _light(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""

    def linear(x: float) -> float:
        x /= 255
        return x / 12.92 if x <= 0.04045 else float(((x + 0.055) / 1.055) ** 2.4)

    red, green, blue, _ = _rgb(colour)
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)


def _contrast(seen: Watched, selector: str) -> float:
    """Of an element's text against the nearest ground that is painted."""
    ground = seen.page.evaluate(
        """(s) => {
          let node = document.querySelector(s);
          for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (colour !== "rgba(0, 0, 0, 0)") return colour;
          }
        }""",
        selector,
    )
    a, b = sorted((_light(seen.style(selector, "color")), _light(ground)))
    return (b + 0.05) / (a + 0.05)
