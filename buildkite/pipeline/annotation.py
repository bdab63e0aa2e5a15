"""The build's one annotation: verdicts, engines, head and base, then the reports of the scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from buildkite.ci_command.status import Check, Verdict
from buildkite.pipeline.plan import Plan
from buildkite.pipeline.verdict import Delivered, section

LIMIT = 1024 * 1024
"""Bytes that Buildkite takes: https://buildkite.com/docs/agent/cli/reference/annotate."""
STYLES = {Verdict.PASS: "success", Verdict.FAIL: "error", Verdict.INVALID: "warning"}
REPORT = "report.md"
NONE = "-"


def annotation(
    plan: Plan | None, verdict: Verdict, checks: Sequence[Check], delivered: Mapping[str, list[Delivered]]
) -> str:
    """Return the whole annotation as Markdown, however long."""
    reports = list(chain.from_iterable(delivered.values()))
    lines = [f"## dropgate: {verdict.value}", "", *_change(plan), "", *_checks(checks), "", *_engines(reports)]
    for report in sorted(reports, key=lambda one: one.verdict is Verdict.PASS):
        lines += ["", *_report(report)]
    return "\n".join(lines) + "\n"


def announcement(plan: Plan) -> str:
    """Return what is shown until there is a verdict."""
    return (
        "\n".join(["## dropgate: running", "", *_change(plan), "", f"Lanes: {', '.join(plan.lanes) or 'none'}"]) + "\n"
    )


def fitted(text: str, whole: str, limit: int = LIMIT) -> str:
    """Cut the text at a line's end so that it fits, and say first where the ``whole`` is."""
    if len(text.encode()) <= limit:
        return text
    pointer = f"Shortened; the whole is the artifact `{whole}`.\n\n"
    kept = text.encode()[: limit - len(pointer.encode())].decode(errors="ignore")
    return pointer + kept[: kept.rfind("\n") + 1]


def _change(plan: Plan | None) -> list[str]:
    if plan is None:
        return ["No plan was recorded."]
    lines = [f"Head `{plan.head or 'unknown'}`, base `{plan.base or 'unknown'}`; {plan.why}."]
    if plan.absent:
        lines += ["", f"Not run, because this installation has no agents for it: {', '.join(plan.absent)}."]
    return lines


def _checks(checks: Sequence[Check]) -> list[str]:
    return _table(["verdict", "required", "seen"], [[check.verdict, check.name, str(check.seen)] for check in checks])


def _engines(reports: Iterable[Delivered]) -> list[str]:
    rows = []
    for report in reports:
        engine, change = section(report.document, "engine"), section(report.document, "change")
        if engine:
            cells = (engine.get("version"), engine.get("commit"), change.get("head"), change.get("base"))
            rows.append([report.name, *(str(cell or NONE) for cell in cells)])
    return _table(["report", "vLLM", "its commit", "head", "base"], rows) if rows else []


def _report(report: Delivered) -> list[str]:
    found = sorted(report.folder.rglob(REPORT)) if report.folder else []
    lines: list[str] = []
    for path in found:
        text = path.read_text(encoding="utf-8", errors="replace").rstrip()
        lines += [f"### {report.name}", "", text, ""]
    return lines


def _table(headings: list[str], rows: list[list[str]]) -> list[str]:
    return [_line(headings), _line(["---"] * len(headings)), *(_line([_cell(cell) for cell in row]) for row in rows)]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
