"""Draws the README's pictures of a report from recorded evidence, in Chromium: `python docs/make_report_png.py`."""

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from dropgate.evidence_folder import load_evidence
from dropgate.judge import judge
from dropgate.report.save import PAGE, save_report

DOCS = Path(__file__).resolve().parent
RECORDED = DOCS.parent / "fixtures" / "recorded" / "clean"
SHOTS = {"report.png": ("light", 1200, 1300), "report-phone.png": ("dark", 360, 1300)}


def main() -> None:
    """Save a picture of the top of the page: on a screen, and on a phone in the dark."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(shutil.copytree(RECORDED, Path(place) / "run"))
        evidence = load_evidence(folder)
        save_report(folder, evidence, judge(evidence))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (scheme, width, height) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto((folder / PAGE).as_uri())
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            shot.quantize(64).save(DOCS / name, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
