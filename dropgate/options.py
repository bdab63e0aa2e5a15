"""Options that several commands share, and the result as they ask for it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dropgate.evidence import Evidence
from dropgate.judge import Judgement
from dropgate.report.document import verdict_document
from dropgate.report.save import document_text, reference_of
from dropgate.report.terminal import print_result
from dropgate.workload.questions import VARIABLE as QUESTIONS_VARIABLE


def add_scenario(parser: argparse.ArgumentParser) -> None:
    """Add the scenario and the values that replace its own."""
    parser.add_argument("scenario", metavar="SCENARIO", help="a name under fixtures/scenarios, or a path to a .yaml")
    parser.add_argument(
        "--set",
        dest="assignments",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="replace one value of the scenario, such as workloads.prefix.requests=16; may be repeated",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add how much is said, and in which form."""
    told = "no progress and no tables: what did not pass, and the verdict"
    parser.add_argument("-q", "--quiet", action="store_true", help=told)
    parser.add_argument("--json", action="store_true", help="print verdict.json in place of the tables")


def add_gsm8k(parser: argparse.ArgumentParser) -> None:
    """Add where GSM8K's questions are."""
    parser.add_argument(
        "--gsm8k",
        type=Path,
        metavar="FILE",
        help=f"GSM8K's questions as jsonl, parquet or ShareGPT JSON (default: ${QUESTIONS_VARIABLE}, else Hugging "
        "Face's openai/gsm8k when it can be reached, else the generated set of this repository)",
    )


def print_judged(options: argparse.Namespace, evidence: Evidence, judgement: Judgement, folder: Path) -> None:
    """Print a judged run in the form of ``add_output``."""
    if options.json:
        sys.stdout.write(document_text(verdict_document(evidence, judgement)))
    else:
        print_result(evidence, judgement, reference_of(evidence), folder, quiet=options.quiet)
