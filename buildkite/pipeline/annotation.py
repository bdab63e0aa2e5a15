"""The build's one annotation: verdicts, engines, head and base, then the reports of the scenarios."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from buildkite.ci_command.status import Check, Verdict
from buildkite.pipeline.lane import VERDICT
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
    for name, document in chain.from_iterable(map(_documents, reports)):
        engine, change = section(document, "engine"), section(document, "change")
        if engine:
            cells = (engine.get("version"), engine.get("commit"), change.get("head"), change.get("base"))
            rows.append([name, *(str(cell or NONE) for cell in cells)])
    return _table(["report", "vLLM", "its commit", "head", "base"], rows) if rows else []


def _report(report: Delivered) -> list[str]:
    """Return every report that was left, as it is: whichever tables a run has, it writes them itself."""
    lines: list[str] = []
    for name, path in _found(report, REPORT):
        text = path.read_text(encoding="utf-8", errors="replace").rstrip()
        lines += [f"### {name}", "", text, ""]
    return lines


def _documents(report: Delivered) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the report's verdict.json, and those of the runs below it: a lane of tests has one a test."""
    yield report.name, report.document
    for name, path in _found(report, VERDICT):
        if name == report.name:
            continue
        with suppress(ValueError):
            document = json.loads(path.read_bytes())
            yield name, document if isinstance(document, dict) else {}


def _found(report: Delivered, file: str) -> Iterator[tuple[str, Path]]:
    """Yield files of this name in the report's folder and below, each with its folder as name."""
    for path in sorted(report.folder.rglob(file)) if report.folder else []:
        yield str(PurePosixPath(report.name, path.parent.relative_to(report.folder or path))), path


def _table(headings: list[str], rows: list[list[str]]) -> list[str]:
    return [_line(headings), _line(["---"] * len(headings)), *(_line([_cell(cell) for cell in row]) for row in rows)]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
