"""The pages in a real browser: nothing loaded, nothing complained about, all requests drawn, readable by all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from dropgate.law import VARIANT_NAMES
from tests.browser.conftest import QUESTIONS, REQUESTS
from tests.support.history_factory import COUNT

pytestmark = pytest.mark.browser
PAGES = ("clean", "option_ignored", "both", "history")
PHONE = 360
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"


@dataclass
class Opened:
    """A page, what it asked for and what it said."""

    page: Page
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1200) -> Iterator[Opened]:
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme="light") as context:
        seen = Opened(context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.messages.append(message.text))
        seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
        seen.page.goto(path.as_uri(), wait_until="load")
        yield seen


def faults(page: Page, *rules: str) -> list[str]:
    """Return what axe calls serious or worse, in all of the page: what is folded is unfolded first."""
    page.evaluate(UNFOLD)
    options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
    found: list[dict[str, Any]] = Axe().run(page, options=options).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_nothing_complains_about_nothing_and_shuts_nobody_out(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    with opened(browser, pages[name]) as seen:
        assert [url for url in seen.requests if not url.startswith("data:")] == [pages[name].as_uri()]
        assert faults(seen.page) == []
        seen.page.emulate_media(color_scheme="dark")
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 20, 20)"
        assert faults(seen.page, "color-contrast") == []
        assert seen.messages == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_does_not_scroll_sideways(browser: Browser, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], width=PHONE) as seen:
        seen.page.evaluate(UNFOLD)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE


MARKS = """() => {
  const found = {};
  for (const one of document.querySelectorAll('figure [data-series]')) {
    const key = one.closest('figure').id + ': ' + one.dataset.series;
    const own = one.querySelectorAll('path, use').length - one.querySelectorAll('defs path').length;
    found[key] = (found[key] || 0) + Math.max(1, own);
  }
  return found;
}"""
"""Counts the marks of every series: paths, or uses of one, or the series itself where it is a mark."""


def test_every_request_has_its_mark(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["large"]) as seen:
        marks = seen.page.evaluate(MARKS)
    for variant in VARIANT_NAMES:
        for part in ("cached", "computed"):
            assert marks[f"strip: {variant} {part}"] == REQUESTS
        assert marks[f"ttft-prefix: {variant} ttft"] == REQUESTS
    for phase in ("acceptance", "acceptance-hit-path"):
        for variant in VARIANT_NAMES:
            assert marks[f"ttft-{phase}: {variant} ttft"] == QUESTIONS
            assert marks[f"positions-{phase}: {variant} position"] == 7
        assert marks[f"prompts-{phase}: prompts"] == QUESTIONS
        assert marks[f"positions-{phase}: difference"] == 8
    with opened(browser, pages["history"]) as seen:
        assert seen.page.evaluate(MARKS)["s1-ttft_ms-mean: candidate trend"] >= COUNT


def test_the_verdict_and_why_are_on_the_first_screen_of_a_phone(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["option_ignored"], width=PHONE) as seen:
        for text in (".badge", ".why li:first-child"):
            box = seen.page.locator(text).bounding_box()
            assert box
            assert box["y"] + box["height"] <= 800
        assert "prefix." in seen.page.locator(".why li").first.inner_text()


def test_paper_has_every_check_and_no_way_round(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["clean"]) as seen:
        last, nav = seen.page.locator(".printed li").last, seen.page.locator("nav")
        assert [last.is_visible(), nav.is_visible()] == [False, True]
        seen.page.emulate_media(media="print")
        assert [last.is_visible(), nav.is_visible()] == [True, False]
        assert len(seen.page.pdf(format="A4")) > 10_000


def test_the_keyboard_reaches_the_result_first(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["clean"]) as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.className") == "skip"
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("document.activeElement.id") == "main"


def test_every_link_leads_somewhere(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["clean"]) as seen:
        links = seen.page.eval_on_selector_all("a[href]", "all => all.map(one => one.getAttribute('href'))")
        assert "baseline/prefix/requests.jsonl" in links
        for link in links:
            if link.startswith("#"):
                assert seen.page.locator(link).count() == 1
            else:
                assert (pages["clean"].parent / link).is_file()


def test_a_fault_of_each_kind_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    """The checks above go red: for a load, a message, an unlabelled picture, a page that is too wide."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><html><title>x</title><img src='http://127.0.0.1:9/x.png'>"
        "<div style='width:900px;color:#888;background:#777'>wide</div><script>console.error('no')</script>"
    )
    with opened(browser, bad, width=PHONE) as seen:
        assert "http://127.0.0.1:9/x.png" in seen.requests
        assert "no" in seen.messages
        assert any(fault.startswith("image-alt") for fault in faults(seen.page))
        assert any(fault.startswith("color-contrast") for fault in faults(seen.page, "color-contrast"))
        assert seen.page.evaluate("document.documentElement.scrollWidth") > PHONE
