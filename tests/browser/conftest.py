"""Pages of known runs, and Debian's Chromium without a head."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from dropgate.evidence_folder import load_evidence
from dropgate.history.page import trend_page
from dropgate.judge import judge
from dropgate.report.save import save_report
from tests.support import large
from tests.support.history_factory import series

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "recorded"
QUESTIONS, REQUESTS = 1_319, 160


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not (chromium := shutil.which("chromium")):
        pytest.skip("no chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        # Root has no sandbox in a container; the pages are the tests' own.
        yield (opened := playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]))
        opened.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A pass, a failure, a run with all of scenario A and B, a large one, and the history of many runs."""
    root = tmp_path_factory.mktemp("pages")
    found = {}
    for case in ("clean", "option_ignored"):
        found[case] = shutil.copytree(RECORDED / case, root / case) / "report.html"
        whole = load_evidence(RECORDED / case)
        save_report(root / case, whole, judge(whole))
    for case, sizes in (("both", (20, 20)), ("large", (QUESTIONS, REQUESTS))):
        whole = large.evidence(*sizes)
        save_report(large.save(whole, root / case), whole, judge(whole))
        found[case] = root / case / "report.html"
    found["history"] = root / "history.html"
    found["history"].write_text(trend_page(series()))
    return found
