"""report.md: the result in the shape of a pull request's "Test Result"."""

from __future__ import annotations

from dropgate.evidence import Evidence
from dropgate.judge import Judgement, Verdict
from dropgate.references import Reference
from dropgate.report.tables import prefix_rows, timing_line
from dropgate.variants import shell_line


def markdown_report(evidence: Evidence, judgement: Judgement, reference: Reference | None) -> str:
    """Return the report as Markdown."""
    lines = [
        f"## dropgate: {judgement.verdict}",
        "",
        f"{evidence.scenario.title}; {_engine(evidence)}; {evidence.created}",
        "",
        *_table(judgement, reference),
        *([f"\n{line}"] if (line := timing_line(judgement)) else []),
        "",
        *_checks(judgement),
        "",
        "<details><summary>Commands</summary>",
        "",
        *(f"{name}:\n\n    {shell_line(tuple(seen.server.command))}\n" for name, seen in evidence.variants.items()),
        "</details>",
    ]
    return "\n".join(lines) + "\n"


def _table(judgement: Judgement, reference: Reference | None) -> list[str]:
    headings = ["metric", "default drop", "option on", "change"]
    if reference:
        headings += ["reference drop", "reference on", "reference change"]
    lines = [_line(headings), _line(["---"] + ["---:"] * (len(headings) - 1))]
    for row in prefix_rows(judgement, reference):
        cells = [row.metric, row.baseline, row.candidate, row.change]
        if reference:
            cells += [row.reference_baseline, row.reference_candidate, row.reference_change]
        lines.append(_line(cells))
    if reference:
        lines += [
            "",
            f"Reference: {reference.origin.hardware}; {reference.origin.source}. Its times are not judged.",
        ]
    return lines


def _engine(evidence: Evidence) -> str:
    commit = f" of commit {evidence.engine.commit}" if evidence.engine.commit else ""
    return f"vLLM {evidence.engine.version}{commit}"


def _checks(judgement: Judgement) -> list[str]:
    odd = [check for check in judgement.checks if check.verdict is not Verdict.PASS]
    passed = f"{len(judgement.checks) - len(odd)} of {len(judgement.checks)} checks passed."
    rows = [_line([check.verdict, f"`{check.name}`", _cell(check.expected), _cell(check.seen)]) for check in odd]
    return (
        [passed, "", _line(["verdict", "check", "expected", "seen"]), _line(["---"] * 4), *rows] if rows else [passed]
    )


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
