"""Scenario A's and B's tables as rows of text, shared by every format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dropgate.evidence import QuestionSet
from dropgate.judge import Judgement
from dropgate.judge.measures import Measures
from dropgate.law import VARIANT_NAMES
from dropgate.references import Reference

DASH = "-"


@dataclass(frozen=True)
class Row:
    """One metric of both variants, with the reference's where there is one."""

    metric: str
    baseline: str
    candidate: str
    change: str
    reference: tuple[str, str, str]
    """As the three before it."""
    kind: Literal["count", "share", "points"] = "count"
    """Counts are exact; shares change by times of one machine; points are rates."""


@dataclass(frozen=True)
class Table:
    """One workload's rows, of metrics that this run has a value for; the same in every format."""

    name: str
    data: str
    """Of which questions, if of any."""
    rows: list[Row]

    @property
    def title(self) -> str:
        """Name and data."""
        title = f"{self.name}: {self.data}" if self.data else self.name
        return title[0].upper() + title[1:]

    @property
    def has_reference(self) -> bool:
        """Whether any row has a reference's value."""
        return any(row.reference[:2] != (DASH, DASH) for row in self.rows)

    @property
    def headings(self) -> list[str]:
        """What stands above the cells."""
        theirs = ["reference drop", "reference on", "reference change"] if self.has_reference else []
        return ["metric", "default drop", "option on", "change", *theirs]

    @property
    def cells(self) -> list[list[str]]:
        """The rows, as wide as the headings."""
        return [
            [row.metric, row.baseline, row.candidate, row.change, *(row.reference if self.has_reference else ())]
            for row in self.rows
        ]


@dataclass(frozen=True)
class _Metric:
    title: str
    path: tuple[str | int, ...]
    form: str
    change: Literal["count", "share", "points"]
    """Counts change by a number, times by a share, rates by percentage points: only shares and points may be laid
    beside another machine's."""


def _count(title: str, *path: str, form: str = ",.10g") -> _Metric:
    return _Metric(title, path, form, "count")


def _time(title: str, *path: str, form: str = ",.1f") -> _Metric:
    return _Metric(title, path, form, "share")


PREFIX = (
    _count("cached tokens per request", "cached_tokens_per_request"),
    _count("computed tokens per request", "computed_tokens_per_request"),
    _count("total cached tokens", "cached_tokens_total"),
    _count("total computed tokens", "computed_tokens_total"),
    _time("request throughput, req/s", "request_throughput", form=",.2f"),
    _time("mean TTFT, ms", "ttft_ms", "mean"),
    _time("P50 TTFT, ms", "ttft_ms", "p50"),
    _time("P90 TTFT, ms", "ttft_ms", "p90"),
    _time("P99 TTFT, ms", "ttft_ms", "p99"),
)
ACCEPTANCE = (
    _count("draft steps", "steps"),
    _count("draft tokens", "draft_tokens"),
    _count("accepted tokens", "accepted_tokens"),
    _Metric("acceptance rate", ("rate",), ".3%", "points"),
    _count("mean acceptance length", "length", form=".2f"),
)
HIT_PATH = (*ACCEPTANCE, *PREFIX[2:4])
ACCURACY = (
    _count("right, strict match", "strict"),
    _count("right, flexible match", "flexible"),
    _count("answers scored", "scored"),
)


def result_tables(judgement: Judgement, reference: Reference | None, questions: QuestionSet | None) -> list[Table]:
    """Return the table of each workload that was measured; what one variant alone lacks is a dash, never a zero."""
    data = ""
    if questions:
        data = (
            f"{questions.name}, {len(questions.token_ids):,} of {questions.rows:,} rows, sha256 {questions.sha256[:12]}"
        )
    scored = next((value for side in judgement.metrics.values() if (value := side.get("accuracy", {}).get("data"))), "")
    kinds = (
        ("prefix cache", "", (), PREFIX),
        ("acceptance, cold", data, ("acceptance",), ACCEPTANCE),
        ("acceptance, hit path", data, ("acceptance_hit_path",), HIT_PATH),
        ("accuracy by lm-eval", scored, ("accuracy",), ACCURACY),
    )
    tables = [Table(name, of, _rows(judgement, reference, under, metrics)) for name, of, under, metrics in kinds]
    return [table for table in tables if table.rows]


def reference_lines(tables: Sequence[Table], reference: Reference | None) -> list[str]:
    """Say where the reference's columns come from, if any table has them."""
    if not reference or not any(table.has_reference for table in tables):
        return []
    return [f"Reference: {reference.origin.hardware}. Its times are shown, never judged.", reference.origin.source]


def _rows(
    judgement: Judgement, reference: Reference | None, under: tuple[str, ...], metrics: Sequence[_Metric]
) -> list[Row]:
    ours = [_value(judgement.metrics.get(name), under) for name in VARIANT_NAMES]
    theirs = [_value(reference.measures(name) if reference else None, under) for name in VARIANT_NAMES]
    rows = [
        Row(metric.title, *_cells(metric, *ours), _cells(metric, *theirs), metric.change)
        for metric in (*metrics, *_positions(ours, under))
    ]
    return [row for row in rows if (row.baseline, row.candidate) != (DASH, DASH)]


def _positions(sides: Sequence[Measures | None], under: tuple[str, ...]) -> list[_Metric]:
    """Return a row for each draft position: the share of steps in which it was accepted."""
    lists = [side.get("position_rates") or [] for side in sides if isinstance(side, dict)] if under else []
    longest = max(map(len, lists), default=0)
    return [
        _Metric(f"accepted at position {place + 1}", ("position_rates", place), ".2%", "points")
        for place in range(longest)
    ]


def _cells(metric: _Metric, baseline: Measures | None, candidate: Measures | None) -> tuple[str, str, str]:
    before, after = _value(baseline, metric.path), _value(candidate, metric.path)
    change = DASH if before is None or after is None else _change(metric, before, after)
    return _text(before, metric.form), _text(after, metric.form), change


def _change(metric: _Metric, before: float, after: float) -> str:
    difference = after - before
    if metric.change == "share":
        return f"{difference / before:+.1%}" if before else DASH
    if metric.change == "points":
        return f"{100 * difference:+.3f} pp" if difference else "0"
    text = format(difference, f"+{metric.form}")
    return text if difference and float(text.replace(",", "")) else "0"


def _value(measures: Any, path: tuple[str | int, ...]) -> Any:
    value = measures
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: float | None, form: str) -> str:
    return DASH if value is None else format(value, form)


def divergence_lines(judgement: Judgement, folder: object, limit: int = 20) -> list[str]:
    """Name each divergent answer: where, both tokens, how far the margin moved, and how to send the prompt again."""
    found = [item for promise in judgement.promises for item in promise.get("divergences", ())]
    lines = []
    for item in found[:limit]:
        moved = "not each other's runner-up" if item["moved"] is None else f"margin moved by {item['moved']:.4f}"
        kind, where = "tie" if item["tie"] else "differs", f"{item['phase']} request #{item['index']}"
        sides = f"{item['left_server']} {item['left']}, {item['right_server']} {item['right']}"
        lines += [
            f"{kind}: {where}, output token {item['position']}: {sides} ({moved})",
            f"  again: dropgate again {folder} --phase {item['phase']} --request {item['index']}",
        ]
    return [*lines, f"and {len(found) - limit} more divergences"] if len(found) > limit else lines


def timing_line(judgement: Judgement) -> str | None:
    """Say how the times of both variants compare; ``None`` where no blocks were taken for that."""
    if not (timing := judgement.metrics.get("timing")):
        return None
    titles = {"throughput": "throughput", "ttft_p50": "P50 TTFT", "ttft_p90": "P90 TTFT"}
    ratios = [
        f"{title} x{timing[name]['ratio']:.3f} [{timing[name]['low']:.3f}, {timing[name]['high']:.3f}]"
        for name, title in titles.items()
    ]
    how = "taking turns (ABBA)" if timing["design"] == "ABBA" else "one variant after the other, so drift is in them"
    return f"ratios:   {', '.join(ratios)}; {timing['blocks']} blocks each, {how}"
