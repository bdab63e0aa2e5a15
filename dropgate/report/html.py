"""report.html: one file that loads nothing, runs no script, and can be read on a phone or on paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from dropgate.evidence import Evidence
from dropgate.judge import Judgement, Verdict
from dropgate.law import VARIANT_NAMES
from dropgate.references import Reference
from dropgate.report.picture import PHASES, TITLES
from dropgate.report.pictures import pictures
from dropgate.report.series import Pair, pair_of
from dropgate.report.tables import DASH, reference_lines, result_tables, timing_line
from dropgate.variants import shell_line

PAGE = Path(__file__).resolve().parent / "page"
ROWS = 2_000
"""Most requests of a phase that the page lists one by one."""
REASONS = 5
"""Most checks that the first screen names."""
HEADLINES = ("cached tokens per request", "mean TTFT, ms", "acceptance rate", "right, strict match")
"""The metrics of the first screen."""
MEANINGS = {
    Verdict.PASS: "The engine kept every promise.",
    Verdict.FAIL: "The engine broke a promise. Do not retry; the first line says which.",
    Verdict.INVALID: "The run says nothing about the engine. Mend what the first line names, then retry.",
}
ORDER = (Verdict.FAIL, Verdict.INVALID)
INCIDENTAL = ("--port", "--served-model-name")
"""What every server has a value of its own for."""


def html_report(
    evidence: Evidence, judgement: Judgement, reference: Reference | None, files: Sequence[tuple[str, int]] = ()
) -> str:
    """Return the page; ``files`` are the evidence folder's, by path within it and size in bytes."""
    tables = result_tables(judgement, reference, evidence.questions)
    odd = [check for verdict in ORDER for check in judgement.checks if check.verdict is verdict]
    return render_page(
        "report.html.j2",
        verdict=str(judgement.verdict),
        meaning=MEANINGS[judgement.verdict],
        title=evidence.scenario.title,
        odd=odd,
        reasons=odd[:REASONS],
        passed=[check for check in judgement.checks if check.verdict is Verdict.PASS],
        headlines=[(table, row) for table in tables for row in table.rows if row.metric in HEADLINES],
        facts=_facts(evidence, timing_line(judgement)),
        tables=tables,
        reference=reference_lines(tables, reference),
        pictures=pictures(evidence, judgement),
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


def _facts(evidence: Evidence, ratios: str | None) -> list[tuple[str, str]]:
    facts = [("engine", evidence.engine.title), ("machine", evidence.machine), ("scenario", evidence.scenario.name)]
    if change := evidence.change:
        facts.append(
            ("change", change.head + (f" of pull request {change.pull_request}" if change.pull_request else ""))
        )
    if ratios:
        facts.append(("ratios", ratios.partition(":")[2].strip()))
    facts.append(("run", evidence.created))
    if costs := evidence.costs:
        facts.append(("took", f"{costs.wall_s:,.0f} s, {costs.peak_memory_gib:.1f} GiB at most"))
    return facts


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
    """Return each server's command, an option a line, its words marked where the baseline's command differs."""
    baseline = evidence.variants.get("baseline")
    shared = set(baseline.server.command) if baseline else set()
    servers = []
    for name, seen in evidence.variants.items():
        lines: list[list[tuple[str, bool]]] = [[]]
        for before, word in itertools.pairwise(("", *seen.server.command)):
            if word.startswith("--"):
                lines.append([])
            lines[-1].append((shell_line((word,)), word not in shared and before not in INCIDENTAL))
        environment = [f"{key}={shell_line((value,))}" for key, value in sorted(seen.server.environment.items())]
        servers.append({"title": f"{name}: {TITLES[name]}", "lines": lines, "environment": environment})
    return servers


def _versions(evidence: Evidence) -> list[tuple[str, str]]:
    engine = evidence.engine
    rows = [("vLLM", engine.version), ("commit", engine.commit or DASH), ("interpreter", engine.python)]
    rows += [(name, version or "not installed") for name, version in engine.packages.items()]
    rows += [("dropgate", evidence.dropgate), *((name, str(value)) for name, value in evidence.host.items())]
    return rows


def _size(size: int) -> str:
    return f"{size / 1024:,.0f} KiB" if size >= 1024 else f"{size} B"
