"""Draws docs/terminal.svg, the README's picture, from recorded evidence: `python docs/make_terminal_svg.py`."""

import io
import re
from pathlib import Path

from rich.console import Console

from dropgate.evidence_folder import load_evidence
from dropgate.judge import judge
from dropgate.report import terminal
from dropgate.report.save import reference_of

DOCS = Path(__file__).resolve().parent
RECORDED = Path("fixtures/recorded/clean")


def main() -> None:
    """Print the result of a recorded run to a recording console and save what it shows."""
    evidence = load_evidence(DOCS.parent / RECORDED)
    console = Console(
        file=io.StringIO(), record=True, width=terminal.WIDTH, force_terminal=True, highlight=False, soft_wrap=True
    )
    terminal.print_result(evidence, judge(evidence), reference_of(evidence), RECORDED, console)
    svg = console.export_svg(title="make gate", unique_id="dropgate")
    # The picture needs nothing from the network: any monospaced font will do.
    svg = re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)
    (DOCS / "terminal.svg").write_text(svg)


if __name__ == "__main__":
    main()
