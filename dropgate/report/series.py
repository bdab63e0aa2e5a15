"""What the pictures show, as plain numbers by variant: pure, and small enough to draw however long the run was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dropgate.evidence import Evidence, PhaseEvidence, RequestRecord
from dropgate.judge.statistics import delta_interval
from dropgate.law import VARIANT_NAMES, VariantName

MARKS = 2_000
"""Most marks of one series; longer ones are drawn in groups, and the caption says so."""

Pair = dict[VariantName, PhaseEvidence]


def pair_of(evidence: Evidence, phase: str) -> Pair | None:
    """Return both variants' evidence of a phase, or nothing where one of them lacks it or has no single requests."""
    seen = {name: evidence.variants[name].phases for name in VARIANT_NAMES if name in evidence.variants}
    found = {name: phases[phase] for name, phases in seen.items() if phase in phases and not phases[phase].bench}
    return found if len(found) == len(VARIANT_NAMES) else None


@dataclass(frozen=True)
class Strip:
    """Cached and computed prompt tokens by request; with ``group`` > 1 the means of that many requests in a row."""

    position: np.ndarray
    cached: np.ndarray
    computed: np.ndarray
    group: int
    unknown: int
    """Requests whose counts the engine did not give: they have no mark."""


def strip(records: Sequence[RequestRecord]) -> Strip:
    """Return the counts of every request, in the order of sending."""
    known = [
        (record.index, record.cached_tokens, record.prompt_tokens - record.cached_tokens)
        for record in records
        if record.cached_tokens is not None and record.prompt_tokens is not None
    ]
    table = np.array(known, dtype=float).reshape(-1, 3)
    group = -(-len(table) // MARKS) or 1
    starts = np.arange(0, len(table), group)
    sums = np.add.reduceat(table, starts) if len(table) else table
    sizes = np.diff([*starts, len(table)])[:, None]
    position, cached, computed = (sums / sizes).T
    return Strip(position, cached, computed, group, len(records) - len(known))


def ttft_ms(records: Sequence[RequestRecord]) -> np.ndarray:
    """Return the times to first token in ms, ascending; of requests that have one."""
    times = [
        (record.first_token_s - record.sent_s) * 1000
        for record in records
        if record.ok and record.first_token_s is not None
    ]
    return np.sort(np.array(times, dtype=float))


def thinned(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and their cumulative shares: of all values, or of so many evenly spaced ranks as may be drawn."""
    count = len(ordered)
    ranks = np.arange(count) if count <= MARKS else np.linspace(0, count - 1, MARKS).astype(int)
    return ordered[ranks], (ranks + 1) / max(1, count)


@dataclass(frozen=True)
class Rates:
    """Acceptance rates of the same prompts in both variants; ``weight`` prompts a point."""

    baseline: np.ndarray
    candidate: np.ndarray
    weight: np.ndarray
    grid: int
    """Cells along an axis where points were gathered; 0: every prompt has a point of its own."""


def rates(pair: Pair) -> Rates:
    """Return the rate of each prompt that was drafted for in both variants."""
    sides = [_drafted(pair[name].requests) for name in VARIANT_NAMES]
    both = sorted(sides[0].keys() & sides[1].keys())
    points = np.array([[side[index] for side in sides] for index in both], dtype=float).reshape(-1, 2)
    if len(points) <= MARKS:
        return Rates(points[:, 0], points[:, 1], np.ones(len(points)), 0)
    grid = 50
    counts, left, right = np.histogram2d(points[:, 0], points[:, 1], bins=grid, range=((0, 1), (0, 1)))
    at, over = np.nonzero(counts)
    middle = 0.5 / grid
    return Rates(left[at] + middle, right[over] + middle, counts[at, over], grid)


def _drafted(records: Sequence[RequestRecord]) -> dict[int, float]:
    return {
        record.index: sum(record.steps_accepted) / drafted
        for record in records
        if record.steps_accepted is not None and (drafted := sum(record.steps_drafted or ()))
    }


@dataclass(frozen=True)
class Positions:
    """Share of steps in which each draft position was accepted, by variant, and the paired difference (shares)."""

    shares: dict[VariantName, list[float]]
    differences: list[tuple[float, float, float]]
    """Difference and its one-sided bounds, by position."""


def positions(pair: Pair, draft_length: int, level: float) -> Positions | None:
    """Return acceptance by draft position over paired prompts; nothing where the steps are not known."""
    sides = [[record.steps_accepted or [] for record in pair[name].requests] for name in VARIANT_NAMES]
    steps = [[len(accepted) for accepted in side] for side in sides]
    if len(steps[0]) != len(steps[1]) or len(steps[0]) < 2 or not all(map(sum, steps)):
        return None
    shares: dict[VariantName, list[float]] = {name: [] for name in VARIANT_NAMES}
    differences = []
    for place in range(draft_length):
        counts = [[sum(count > place for count in accepted) for accepted in side] for side in sides]
        for name, of, total in zip(VARIANT_NAMES, counts, steps, strict=True):
            shares[name].append(sum(of) / sum(total))
        differences.append(delta_interval((counts[0], steps[0]), (counts[1], steps[1]), level))
    return Positions(shares, differences)


@dataclass(frozen=True)
class Span:
    """What one server did from one second of the run to another."""

    server: str
    what: str
    start_s: float
    end_s: float


def timeline(evidence: Evidence) -> list[Span]:
    """Return what every server did, in order: boot, populate, timed requests, controls, scoring, and the idle rest."""
    spans = []
    for server, seen in evidence.variants.items():
        busy = [Span(server, "boot", *seen.server.boot_s)] if seen.server.boot_s else []
        for name, phase in seen.phases.items():
            busy += _span(server, "populate", phase.populate)
            busy.append(Span(server, f"timed: {name.replace('_', ' ')}", phase.started_s, phase.finished_s))
            busy += [*_span(server, "control", phase.control), *_span(server, "control", phase.warm_control)]
        if scored := seen.accuracy:
            busy.append(Span(server, "scoring", scored.started_s, scored.finished_s))
        busy.sort(key=lambda span: (span.start_s, span.end_s))
        spans += _with_idle(busy)
    return spans


def _span(server: str, what: str, records: Sequence[RequestRecord]) -> list[Span]:
    if not records:
        return []
    ends = [record.finished_s for record in records if record.finished_s is not None]
    return [Span(server, what, min(record.sent_s for record in records), max(ends))] if ends else []


def _with_idle(busy: list[Span]) -> list[Span]:
    spans: list[Span] = []
    for span in busy:
        last = max((one.end_s for one in spans), default=span.start_s)
        if span.start_s - last > 0.05:
            spans.append(Span(span.server, "idle", last, span.start_s))
        spans.append(span)
    return spans
