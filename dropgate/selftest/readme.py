"""The table of all faults, between two markers of the README."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dropgate.errors import InputError
from dropgate.faults.catalog import summaries
from dropgate.selftest.harness import HARNESS
from dropgate.selftest.matrix import Outcome
from dropgate.selftest.rows import Row

BEGIN, END = "<!-- kill-matrix: written by `make kill-matrix` -->", "<!-- /kill-matrix -->"
OTHERS = {
    "draft_weights_noisy": ("Noise in every matrix of the draft, in its file", "worker"),
}
"""Faults that are neither a patch nor a function of the harness."""


def summary(row: Row) -> tuple[str, str]:
    """Return what a fault does, and where it is put."""
    if row.fault in HARNESS:
        return (HARNESS[row.fault].__doc__ or "").splitlines()[0].rstrip("."), "harness"
    return {**summaries(), **OTHERS}[row.fault]


def table(outcomes: Sequence[Outcome], note: str) -> str:
    """Write the outcomes as Markdown, folded away."""
    good = sum(not outcome.problem for outcome in outcomes)
    lines = [
        f"{good} of {len(outcomes)} faults got the verdict that they must, named by the check that must name them",
        f"({note}).",
        "",
        "<details><summary>All faults</summary>",
        "",
        "| fault | where | in | verdict | named by | s |",
        "|---|---|---|---|---|---|",
        *map(_line, outcomes),
        "",
        "</details>",
    ]
    return "\n".join(lines)


def _line(outcome: Outcome) -> str:
    row = outcome.row
    what, where = summary(row)
    named = f"`{row.check}`" if not outcome.problem else f"NOT AS EXPECTED: {outcome.problem}"
    variants = " and ".join(row.variants)
    return f"| {what} | {where} | {variants} | {outcome.verdict} | {named} | {outcome.seconds:.0f} |"


def put_into(path: Path, text: str) -> None:
    """Replace what stands between the markers.

    Raises:
        InputError: the markers are not there.

    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"{path}: the markers {BEGIN} and {END} are not there")
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
