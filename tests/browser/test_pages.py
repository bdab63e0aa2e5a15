"""The pages in a real browser: nothing loaded, nothing complained about, all requests drawn, readable by all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import QUESTIONS, REQUESTS
from tests.support.history_factory import COUNT

pytestmark = pytest.mark.browser
PAGES = ("clean", "option_ignored", "whole", "history")
PHONE = 360


@dataclass
class Opened:
    """A page, what it asked for and what it said."""

    page: Page
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser, path: Path, scheme: Literal["light", "dark"] = "light", width: int = 1200
) -> Iterator[Opened]:
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
        seen = Opened(context.new_page())
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on("console", lambda message: seen.messages.append(message.text))
        seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
        seen.page.goto(path.as_uri(), wait_until="load")
        yield seen


def faults(page: Page) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_nothing_complains_about_nothing_and_shuts_nobody_out(
    browser: Browser, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    with opened(browser, pages[name], scheme) as seen:
        assert [url for url in seen.requests if not url.startswith("data:")] == [pages[name].as_uri()]
        assert seen.messages == []
        assert faults(seen.page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_does_not_scroll_sideways(browser: Browser, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], width=PHONE) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE


def marks(page: Page, figure: str, series: str) -> int:
    """Count the marks of a series: paths, or uses of one, or the series itself where it is a mark."""
    found = page.locator(f"#{figure} [data-series='{series}']")
    return sum(max(1, one.locator("path, use").count() - one.locator("defs path").count()) for one in found.all())


def test_every_request_has_its_mark(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["whole"]) as seen:
        for variant in ("baseline", "candidate"):
            for part in ("cached", "computed"):
                assert marks(seen.page, "strip", f"{variant} {part}") == REQUESTS
            assert marks(seen.page, "ttft-prefix", f"{variant} ttft") == REQUESTS
            for phase in ("acceptance", "acceptance-hit-path"):
                assert marks(seen.page, f"ttft-{phase}", f"{variant} ttft") == QUESTIONS
                assert marks(seen.page, f"positions-{phase}", f"{variant} position") == 7
        for phase in ("acceptance", "acceptance-hit-path"):
            assert marks(seen.page, f"prompts-{phase}", "prompts") == QUESTIONS
            assert marks(seen.page, f"positions-{phase}", "difference") == 8
    with opened(browser, pages["history"]) as seen:
        assert marks(seen.page, "s1-ttft_ms-mean", "candidate trend") >= COUNT


def test_the_verdict_and_why_are_on_the_first_screen_of_a_phone(browser: Browser, pages: dict[str, Path]) -> None:
    with opened(browser, pages["option_ignored"], width=PHONE) as seen:
        for text in (".badge", ".why li:first-child"):
            box = seen.page.locator(text).bounding_box()
            assert box
            assert box["y"] + box["height"] <= 800
        assert "prefix." in seen.page.locator(".why li").first.inner_text()


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
        "<div style='width:900px'>wide</div><script>console.error('no')</script>"
    )
    with opened(browser, bad, width=PHONE) as seen:
        assert "http://127.0.0.1:9/x.png" in seen.requests
        assert "no" in seen.messages
        assert any(fault.startswith("image-alt") for fault in faults(seen.page))
        assert seen.page.evaluate("document.documentElement.scrollWidth") > PHONE
