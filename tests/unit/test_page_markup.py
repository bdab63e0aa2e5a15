"""What can be said of the page's accessibility without a browser; tests/browser says the rest."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from dropgate.history.page import trend_page
from dropgate.judge import judge
from dropgate.report.html import PAGE, html_report
from tests.support import factory, large
from tests.support.history_factory import series

STYLE = (PAGE / "style.css").read_text()
TEXT = ("ink", "soft", "link", "pass", "fail", "invalid", "warn")
"""Colours that text is set in."""
READABLE = 4.5
"""WCAG 2.2, success criterion 1.4.3."""


class Outline(HTMLParser):
    """Collects ids, references to them, headings, and parts that must have a name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: set[str] = set()
        self.levels: list[int] = []
        self.nameless: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.append(found["id"])
        self.references |= set(found.get("aria-labelledby", "").split())
        self.references |= set(re.findall(r"url\(#([^)]+)\)", " ".join(found.values())))
        if found.get("href", "").startswith("#"):
            self.references.add(found["href"][1:])
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        named = found.get("aria-label") or found.get("aria-labelledby")
        if (tag in ("nav", "figure", "section") or found.get("role") in ("img", "region")) and not named:
            self.nameless.append(tag)


def pages() -> dict[str, str]:
    found = {"failure": factory.evidence(candidate=factory.seen("baseline")), "whole": large.evidence(20, 20)}
    return {name: html_report(whole, judge(whole), None) for name, whole in found.items()} | {
        "history": trend_page(series())
    }


@pytest.fixture(scope="module", params=["failure", "whole", "history"])
def outline(request: pytest.FixtureRequest) -> Outline:
    return Outline(pages()[request.param])


def test_ids_are_unique_and_every_reference_has_one(outline: Outline) -> None:
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.references <= set(outline.ids)


def test_headings_skip_no_level_and_every_part_has_a_name(outline: Outline) -> None:
    assert outline.levels[0] == 1
    assert all(after - before <= 1 for before, after in zip(outline.levels, outline.levels[1:], strict=False))
    assert outline.nameless == []


def palette(text: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})\b", text))


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_text_can_be_read_in_light_and_dark(scheme: str, ground: str) -> None:
    light, _, rest = STYLE.partition("@media screen")
    colours = palette(light) | (palette(rest) if scheme == "dark" else {})
    assert {name: contrast(colours[name], colours[ground]) >= READABLE for name in TEXT} == dict.fromkeys(TEXT, True)
    assert contrast("#777", "#fff") < READABLE < contrast("#767676", "#fff")


def test_every_request_has_a_mark_and_every_colour_is_the_pages() -> None:
    text = pages()["whole"]
    drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawn) == 9
    marks: dict[str, int] = {}
    for svg in drawn:
        assert not re.findall(r"#[0-9a-f]{6}\b", re.sub(r"(id|href)=\"[^\"]*\"|url\([^)]*\)", "", svg))
        for group in ElementTree.fromstring(svg).iter():  # noqa: S314  (our own)
            if name := group.get("data-series"):
                own = [one for one in group.iter() if one.tag in ("path", "use")]
                defined = [one for defs in group.iter("defs") for one in defs.iter("path")]
                marks[name] = marks.get(name, 0) + max(1, len(own) - len(defined))
    assert marks["baseline cached"] == marks["candidate computed"] == 20
    assert marks["baseline ttft"] == marks["candidate ttft"] == 3 * 20
    assert marks["prompts"] == 2 * 20
    assert marks["difference"] == 2 * 8
    assert marks["baseline position"] == marks["candidate position"] == 2 * 7
