"""report.html: one file that loads nothing, runs no script, and can be read on a phone or on paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dropgate.evidence import Evidence
from dropgate.judge import Check, Judgement, Verdict
from dropgate.law import VARIANT_NAMES
from dropgate.references import Reference
from dropgate.report.picture import PHASES, TITLES
from dropgate.report.pictures import pictures
from dropgate.report.series import Pair, pair_of
from dropgate.report.tables import DASH, Table, result_tables, timing_line
from dropgate.variants import shell_line

PAGE = Path(__file__).resolve().parent / "page"
ROWS = 2_000
"""Most requests of a phase that the page lists one by one."""
REASONS = 5
MEANINGS = {
    Verdict.PASS: "Every check held.",
    Verdict.FAIL: "The engine broke a promise. Do not retry; the first line says which.",
    Verdict.INVALID: "The run says nothing about the engine. Mend what the first line names, then retry.",
}
ORDER = (Verdict.FAIL, Verdict.INVALID, Verdict.PASS)


def html_report(
    evidence: Evidence, judgement: Judgement, reference: Reference | None, files: Sequence[tuple[str, int]] = ()
) -> str:
    """Return the page; ``files`` are the evidence folder's, by path within it and size in bytes."""
    tables = result_tables(judgement, reference, evidence.questions)
    checks = sorted(judgement.checks, key=lambda check: ORDER.index(check.verdict))
    has_reference = reference and any(table.has_reference for table in tables)
    return render_page(
        "report.html.j2",
        verdict=str(judgement.verdict),
        meaning=MEANINGS[judgement.verdict],
        why=_why(checks, tables),
        title=evidence.scenario.title,
        facts=_facts(evidence, timing_line(judgement)),
        tables=[_shown(table) for table in tables],
        reference=f"{reference.origin.hardware}; {reference.origin.source}" if reference and has_reference else "",
        pictures=pictures(evidence, judgement),
        checks=checks,
        passed=sum(check.verdict is Verdict.PASS for check in checks),
        requests=_requests(evidence),
        servers=_servers(evidence),
        versions=_versions(evidence),
        files=[(name, _size(size)) for name, size in files],
        dropgate=evidence.dropgate,
    )


def render_page(template: str, **values: Any) -> str:
    """Fill in a template of this folder; every value is escaped, and one that is missing is an error."""
    loader = jinja2.FileSystemLoader(PAGE)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = Markup((PAGE / "style.css").read_text(encoding="utf-8"))  # noqa: S704  (our own)
    return environment.get_template(template).render(style=style, **values)


def _why(checks: list[Check], tables: list[Table]) -> list[str]:
    """Say why in a few lines: what did not pass, or else what the option changed."""
    odd = [check for check in checks if check.verdict is not Verdict.PASS]
    if odd:
        lines = [f"{check.name}: expected {check.expected}, seen {check.seen}" for check in odd[:REASONS]]
        return [*lines, f"and {len(odd) - REASONS} more below"] if len(odd) > REASONS else lines
    firsts = [(table, next(row for row in table.rows if row.is_measured)) for table in tables]
    rates = [(table, row) for table in tables for row in table.rows if row.metric == "acceptance rate"]
    named = [*((table, row) for table, row in firsts if "acceptance" not in table.title), *rates]
    return [
        f"{table.title.partition(':')[0]}: {row.metric} {row.baseline} by default, {row.candidate} with the option on "
        f"({row.change})"
        for table, row in named
    ] + [f"{len(checks)} of {len(checks)} checks passed"]


def _facts(evidence: Evidence, ratios: str | None) -> list[tuple[str, str]]:
    engine, costs, host = evidence.engine, evidence.costs, evidence.host
    facts = [
        ("engine", f"vLLM {engine.version}" + (f", commit {engine.commit}" if engine.commit else "")),
        ("machine", f"{host.get('processor', 'unknown')}, {host.get('cpus', '?')} cores"),
        ("run", evidence.created),
        ("scenario", evidence.scenario.name),
    ]
    if change := evidence.change:
        facts.append(
            ("change", change.head + (f" of pull request {change.pull_request}" if change.pull_request else ""))
        )
    if ratios:
        facts.append(("ratios", ratios.partition(":")[2].strip()))
    if costs:
        facts.append(("took", f"{costs.wall_s:,.0f} s, {costs.peak_memory_gib:.1f} GiB at most"))
    return facts


def _shown(table: Table) -> dict[str, Any]:
    columns, rows = table_cells(table)
    return {"title": table.title[0].upper() + table.title[1:], "columns": columns, "rows": rows}


def table_cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return a result table's headings and cells, with the reference's where there is one."""
    columns, rows = ["metric", "default drop", "option on", "change"], []
    if table.has_reference:
        columns += ["reference drop", "reference on", "reference change"]
    for row in table.rows:
        theirs = [row.reference_baseline, row.reference_candidate, row.reference_change]
        rows.append([row.metric, row.baseline, row.candidate, row.change, *(theirs if table.has_reference else [])])
    return columns, rows


def _requests(evidence: Evidence) -> list[dict[str, Any]]:
    tables = []
    for phase, title in PHASES.items():
        if not (pair := pair_of(evidence, phase)):
            continue
        count = max(len(pair[name].requests) for name in VARIANT_NAMES)
        names = ["cached", "TTFT, ms", *(() if phase == "prefix" else ("accepted", "drafted"))]
        columns = ["request", "prompt tokens", *(f"{name}, {TITLES[side]}" for name in names for side in VARIANT_NAMES)]
        rows = _request_rows(pair, with_drafts=phase != "prefix") if count <= ROWS else []
        tables.append({"title": title[0].upper() + title[1:], "columns": columns, "rows": rows, "count": count})
    return tables


def _request_rows(pair: Pair, with_drafts: bool) -> list[list[str]]:
    rows = []
    for one, other in zip(*(pair[name].requests for name in VARIANT_NAMES), strict=False):
        both = (one, other)
        cells = [f"#{one.index}", _count(one.prompt_tokens), *(_count(record.cached_tokens) for record in both)]
        for record in both:
            first = record.first_token_s
            cells.append(DASH if first is None else f"{(first - record.sent_s) * 1000:,.1f}")
        if with_drafts:
            for steps in (one.steps_accepted, other.steps_accepted, one.steps_drafted, other.steps_drafted):
                cells.append(_count(None if steps is None else sum(steps)))
        rows.append(cells)
    return rows


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def _servers(evidence: Evidence) -> list[dict[str, Any]]:
    baseline = evidence.variants.get("baseline")
    shared = set(baseline.server.command) if baseline else set()
    servers = []
    for name, seen in evidence.variants.items():
        words = [(shell_line((word,)), name != "baseline" and word not in shared) for word in seen.server.command]
        environment = [f"{key}={shell_line((value,))}" for key, value in sorted(seen.server.environment.items())]
        servers.append({"title": f"{name}: {TITLES[name]}", "words": words, "environment": environment})
    return servers


def _versions(evidence: Evidence) -> list[tuple[str, str]]:
    engine = evidence.engine
    rows = [("vLLM", engine.version), ("commit", engine.commit or DASH), ("interpreter", engine.python)]
    rows += [(name, version or "not installed") for name, version in engine.packages.items()]
    rows += [("dropgate", evidence.dropgate), *((name, str(value)) for name, value in evidence.host.items())]
    return rows


def _size(size: int) -> str:
    return f"{size / 1024:,.0f} KiB" if size >= 1024 else f"{size} B"
