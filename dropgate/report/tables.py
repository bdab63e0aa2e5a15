"""Scenario A's table as rows of text, shared by every format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dropgate.judge import Judgement
from dropgate.judge.measures import Measures, delta
from dropgate.references import Reference

DASH = "-"


@dataclass(frozen=True)
class Row:
    """One metric of both variants, with the reference's where there is one."""

    metric: str
    baseline: str
    candidate: str
    change: str
    reference_baseline: str
    reference_candidate: str
    reference_change: str

    @property
    def is_measured(self) -> bool:
        """Whether this run has a value for either variant."""
        return (self.baseline, self.candidate) != (DASH, DASH)


@dataclass(frozen=True)
class _Metric:
    title: str
    path: tuple[str, ...]
    form: str
    relative: bool
    """Counts change by a number of tokens, times by a share: only shares may be laid beside another machine's."""


METRICS = (
    _Metric("cached tokens per request", ("cached_tokens_per_request",), ",.10g", relative=False),
    _Metric("computed tokens per request", ("computed_tokens_per_request",), ",.10g", relative=False),
    _Metric("total cached tokens", ("cached_tokens_total",), ",.10g", relative=False),
    _Metric("total computed tokens", ("computed_tokens_total",), ",.10g", relative=False),
    _Metric("request throughput, req/s", ("request_throughput",), ",.2f", relative=True),
    _Metric("mean TTFT, ms", ("ttft_ms", "mean"), ",.1f", relative=True),
    _Metric("P50 TTFT, ms", ("ttft_ms", "p50"), ",.1f", relative=True),
    _Metric("P90 TTFT, ms", ("ttft_ms", "p90"), ",.1f", relative=True),
    _Metric("P99 TTFT, ms", ("ttft_ms", "p99"), ",.1f", relative=True),
)


def prefix_rows(judgement: Judgement, reference: Reference | None) -> list[Row]:
    """Return scenario A's table; what was not measured is a dash, never a zero."""
    ours = [judgement.metrics.get(name) for name in ("baseline", "candidate")]
    theirs = [reference.measures(name) if reference else None for name in ("baseline", "candidate")]
    return [Row(metric.title, *_cells(metric, *ours), *_cells(metric, *theirs)) for metric in METRICS]


def _cells(metric: _Metric, baseline: Measures | None, candidate: Measures | None) -> tuple[str, str, str]:
    before, after = _value(baseline, metric.path), _value(candidate, metric.path)
    change = DASH
    if baseline and candidate and before is not None and after is not None:
        difference = _value(delta(baseline, candidate), metric.path)
        if metric.relative:
            change = f"{difference / before:+.1%}" if before else DASH
        else:
            change = f"{difference:+{metric.form}}" if difference else "0"
    return _text(before, metric.form), _text(after, metric.form), change


def _value(measures: Measures | None, path: tuple[str, ...]) -> Any:
    value: Any = measures
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: float | None, form: str) -> str:
    return DASH if value is None else format(value, form)


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
