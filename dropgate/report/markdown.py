"""report.md: the result in the shape of a pull request's "Test Result"."""

from __future__ import annotations

from collections.abc import Sequence

from dropgate.evidence import Evidence
from dropgate.judge import Judgement, Verdict
from dropgate.references import Reference
from dropgate.report.tables import Table, divergence_lines, reference_lines, result_tables, timing_line
from dropgate.variants import shell_line


def markdown_report(evidence: Evidence, judgement: Judgement, reference: Reference | None) -> str:
    """Return the report as Markdown."""
    lines = [
        f"## dropgate: {judgement.verdict}",
        "",
        f"{evidence.scenario.title}; {evidence.engine.title}; {evidence.machine}; {evidence.created}",
        *_tables(result_tables(judgement, reference, evidence.questions), reference),
        *(["", line] if (line := timing_line(judgement)) else []),
        "",
        *_checks(judgement),
        *_divergences(judgement),
        "",
        "<details><summary>Commands</summary>",
        "",
        *(f"{name}:\n\n    {shell_line(tuple(seen.server.command))}\n" for name, seen in evidence.variants.items()),
        "</details>",
    ]
    return "\n".join(lines) + "\n"


def markdown_judgement(heading: str, judgement: Judgement, facts: Sequence[str]) -> str:
    """Return the report of a judgement that no server's evidence stands behind: heading, tables, facts, checks."""
    title = "; ".join(line.rstrip(".") for line in heading.splitlines())
    tables = _tables(result_tables(judgement, None, None), None)
    shown = ["", *(f"- {' '.join(fact.split())}" for fact in facts)] if facts else []
    none = ["", "No workload of this layout is scenario A's."]
    lines = [f"## dropgate: {judgement.verdict}", "", title, *(tables or none), *shown, "", *_checks(judgement)]
    return "\n".join(lines) + "\n"


def _tables(tables: list[Table], reference: Reference | None) -> list[str]:
    lines = []
    for table in tables:
        columns = len(table.headings) - 1
        lines += ["", f"### {table.title}", "", _line(table.headings), _line(["---"] + ["---:"] * columns)]
        lines += [_line(cells) for cells in table.cells]
    told = reference_lines(tables, reference)
    return [*lines, "", " ".join(told)] if told else lines


def _checks(judgement: Judgement) -> list[str]:
    odd = [check for check in judgement.checks if check.verdict is not Verdict.PASS]
    passed = f"{len(judgement.checks) - len(odd)} of {len(judgement.checks)} checks passed."
    rows = [_line([check.verdict, f"`{check.name}`", _cell(check.expected), _cell(check.seen)]) for check in odd]
    return (
        [passed, "", _line(["verdict", "check", "expected", "seen"]), _line(["---"] * 4), *rows] if rows else [passed]
    )


def _divergences(judgement: Judgement) -> list[str]:
    if not (lines := divergence_lines(judgement, "DIR")):
        return []
    head = ["", "<details><summary>Divergent answers</summary>", ""]
    return [*head, *(f"    {line}" for line in lines), "", "</details>"]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
