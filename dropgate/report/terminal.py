"""The result on a terminal: the table, what did not pass, the verdict. At most 100 columns."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from dropgate.evidence import Evidence
from dropgate.judge import Judgement, Verdict
from dropgate.references import Reference
from dropgate.report.tables import Table, divergence_lines, reference_lines, result_tables, timing_line

STYLES = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red", Verdict.INVALID: "bold yellow"}
WIDTH = 100


def print_result(
    evidence: Evidence,
    judgement: Judgement,
    reference: Reference | None,
    folder: Path,
    console: Console | None = None,
    quiet: bool = False,
) -> None:
    """Print a run's result, by default to standard output; colours only on a terminal, and not with NO_COLOR."""
    heading = f"{evidence.scenario.title}\n{evidence.engine.title}"
    tables = result_tables(judgement, reference, evidence.questions)
    ratios = [line] if (line := timing_line(judgement)) else []
    facts = [*divergence_lines(judgement, folder), *ratios, _costs(evidence)]
    print_judgement(heading, judgement, tables, reference, facts, folder, console, quiet)


def print_judgement(
    heading: str,
    judgement: Judgement,
    tables: list[Table],
    reference: Reference | None,
    facts: list[str],
    folder: Path | None,
    console: Console | None = None,
    quiet: bool = False,
) -> None:
    """Print a judgement: the table, what did not pass, some facts, where the evidence is, the verdict.

    ``quiet`` leaves out the table and the facts.
    """
    console = console or Console(highlight=False, soft_wrap=True, width=WIDTH)
    if not quiet:
        _print_tables(heading, tables, reference, console)
    odd = [check for check in judgement.checks if check.verdict is not Verdict.PASS]
    for check in odd:
        console.print(f"{check.verdict:7}", style=STYLES[check.verdict], end=" ")
        console.print(f"{check.name}: expected {check.expected}, seen {check.seen}", markup=False)
    for fact in () if quiet else facts:
        console.print(fact, markup=False)
    if folder:
        console.print(f"evidence: {folder}", markup=False)
    if odd and folder:
        console.print(f"again:    dropgate judge {folder}", markup=False)
    console.print(f"verdict:  {judgement.verdict}", style=STYLES[judgement.verdict], end="")
    passed = len(judgement.checks) - len(odd)
    console.print(f" ({passed} of {len(judgement.checks)} checks passed)", markup=False)


def _print_tables(heading: str, tables: list[Table], reference: Reference | None, console: Console) -> None:
    console.print(heading, markup=False)
    for table in tables:
        console.print(_rich(table))
    for line in reference_lines(tables, reference):
        console.print(line, markup=False)


def _rich(result: Table) -> RichTable:
    table = RichTable(title=result.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, heading in enumerate(result.headings):
        style = "dim" if heading.startswith("reference") else None
        table.add_column(heading.replace(" ", "\n"), justify="right" if place else "left", no_wrap=True, style=style)
    for cells in result.cells:
        table.add_row(*cells)
    return table


def _costs(evidence: Evidence) -> str:
    costs = evidence.costs
    if costs is None:
        return "costs:    not known, no engine became ready"
    return (
        f"costs:    {costs.wall_s:.1f} s, of which the engines booted or answered {costs.engine_s:.1f} s; "
        f"the harness added {costs.added_share:.1%}\n          peak memory {costs.peak_memory_gib:.1f} GiB"
    )
