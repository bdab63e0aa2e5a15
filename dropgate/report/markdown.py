"""report.md: the result in the shape of a pull request's "Test Result"."""

from __future__ import annotations

from collections.abc import Sequence

from dropgate.evidence import Evidence
from dropgate.judge import Judgement, Verdict
from dropgate.references import Reference
from dropgate.report.tables import Table, divergence_lines, result_tables, timing_line
from dropgate.variants import shell_line


def markdown_report(evidence: Evidence, judgement: Judgement, reference: Reference | None) -> str:
    """Return the report as Markdown."""
    lines = [
        f"## dropgate: {judgement.verdict}",
        "",
        f"{evidence.scenario.title}; {_engine(evidence)}; {_machine(evidence)}; {evidence.created}",
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
        lines += ["", f"### {table.title[0].upper()}{table.title[1:]}", "", *_table(table)]
    if reference and any(table.has_reference for table in tables):
        origin = reference.origin
        lines += ["", f"Reference: {origin.hardware}; {origin.source}. Its times are not judged."]
    return lines


def _table(table: Table) -> list[str]:
    headings = ["metric", "default drop", "option on", "change"]
    if table.has_reference:
        headings += ["reference drop", "reference on", "reference change"]
    lines = [_line(headings), _line(["---"] + ["---:"] * (len(headings) - 1))]
    for row in table.rows:
        cells = [row.metric, row.baseline, row.candidate, row.change]
        if table.has_reference:
            cells += [row.reference_baseline, row.reference_candidate, row.reference_change]
        lines.append(_line(cells))
    return lines


def _engine(evidence: Evidence) -> str:
    commit = f" of commit {evidence.engine.commit}" if evidence.engine.commit else ""
    return f"vLLM {evidence.engine.version}{commit}"


def _machine(evidence: Evidence) -> str:
    host = evidence.host
    return f"{host.get('processor', 'unknown processor')}, {host.get('cpus', '?')} cores"


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
