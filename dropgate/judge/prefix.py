"""The promise of the option: exact cached and computed tokens of every request, and of all together."""

from __future__ import annotations

from dropgate.evidence import RequestRecord
from dropgate.judge.verdict import Check, Verdict, passes, signed, summary, tokens
from dropgate.judge.view import PhaseView
from dropgate.law import expected_hit
from dropgate.metrics import PROMPT_TOKENS_BY_SOURCE
from dropgate.scenario.promises import PrefixPromise


def judge_prefix(baseline: PhaseView, candidate: PhaseView, promise: PrefixPromise) -> list[Check]:
    """Judge each variant by the law with its resolved unit, then the difference between them."""
    checks = judge_hits(baseline, candidate)
    if promise.expect:
        for view in (baseline, candidate):
            checks.append(_judge_pinned(view, promise))
    return checks


def judge_hits(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Judge the cached and computed tokens of one phase by the law: each variant's, then the difference."""
    variants = [check for view in (baseline, candidate) for check in _judge_variant(view)]
    return [*variants, _judge_difference(baseline, candidate)]


def _law(view: PhaseView, record: RequestRecord) -> int:
    return expected_hit(record.shared_tokens, record.prompt_tokens_sent, view.unit, view.variant)


def _judge_variant(view: PhaseView) -> list[Check]:
    stem, records = view.stem, view.phase.requests
    expected = [_law(view, record) for record in records]
    seen = [record.cached_tokens for record in records]
    computed = sum(record.prompt_tokens_sent for record in records) - sum(expected)
    cached_rise = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit")
    computed_rise = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_compute")
    return [
        passes(
            f"{stem}.cached_tokens_per_request",
            expected == seen,
            summary((record.index, tokens(count)) for record, count in zip(records, expected, strict=True)),
            summary((record.index, _count(record.cached_tokens)) for record in records),
        ),
        passes(
            f"{stem}.cached_tokens_total",
            sum(expected) == cached_rise,
            tokens(sum(expected)),
            tokens(cached_rise),
        ),
        passes(
            f"{stem}.computed_tokens_total",
            computed == computed_rise,
            tokens(computed),
            tokens(computed_rise),
        ),
    ]


def _judge_difference(baseline: PhaseView, candidate: PhaseView) -> Check:
    name = f"{baseline.name}.delta.cached_tokens_per_request"
    pairs = list(zip(baseline.phase.requests, candidate.phase.requests, strict=True))
    expected = [_law(candidate, kept) - _law(baseline, dropped) for dropped, kept in pairs]
    seen = [(kept.cached_tokens or 0) - (dropped.cached_tokens or 0) for dropped, kept in pairs]
    wanted, found = (summary(enumerate(map(signed, values))) for values in (expected, seen))
    if not any(expected):
        return Check(name, Verdict.INVALID, "prompts long enough for the option to matter", "0 in both is no proof")
    return passes(name, expected == seen, wanted, found)


def _judge_pinned(view: PhaseView, promise: PrefixPromise) -> Check:
    assert promise.expect is not None  # noqa: S101
    pinned = getattr(promise.expect, view.variant)
    expected = (promise.expect.unit, pinned.cached_tokens_per_request, pinned.computed_tokens_per_request)
    seen = {
        (
            view.unit,
            record.cached_tokens,
            record.prompt_tokens_sent - (record.cached_tokens or 0),
        ): record.index
        for record in view.phase.requests
    }
    odd = next((counts for counts in seen if counts != expected), expected)
    return passes(f"{view.stem}.pinned", set(seen) == {expected}, _pin(*expected), _pin(*odd))


def _pin(unit: int, cached: int | None, computed: int) -> str:
    return f"unit {tokens(unit)}, {_count(cached)} cached and {tokens(computed)} computed per request"


def _count(count: int | None) -> str:
    return "unknown" if count is None else tokens(count)
