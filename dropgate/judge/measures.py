"""The numbers of a run that tables show: scenario A's columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dropgate.evidence import AccuracyEvidence, PhaseEvidence
from dropgate.judge.identities import accepted_per_position
from dropgate.judge.view import PhaseView
from dropgate.law import acceptance
from dropgate.metrics import ACCEPTED_TOKENS, DRAFT_TOKENS, DRAFTS, PROMPT_TOKENS_BY_SOURCE

Measures = dict[str, Any]


def measure(view: PhaseView) -> Measures:
    """Return one variant's counts (tokens), throughput (requests/s) and time to first token (ms)."""
    bench = view.phase.bench.timed.result if view.phase.bench else None
    requests = _requests(view.phase)
    cached = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit")
    computed = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_compute")
    return {
        "requests": requests,
        "cached_tokens_total": cached,
        "computed_tokens_total": computed,
        "cached_tokens_per_request": _per_request(cached, requests),
        "computed_tokens_per_request": _per_request(computed, requests),
        "request_throughput": bench.get("request_throughput") if bench else _throughput(view.phase),
        "ttft_ms": _summary([one * 1000 for one in bench.get("ttfts") or []]) if bench else _ttft_ms(view.phase),
    }


def measure_acceptance(view: PhaseView) -> Measures:
    """Return one variant's scenario B counts (steps, tokens), its acceptance rate (share) and length (tokens a step).

    ``per_position`` has accepted tokens by draft position, ``position_rates`` the same as shares of the steps.
    """
    steps, drafted, accepted = (view.rises.total(name) for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS))
    rate, length = acceptance(steps, drafted, accepted)
    positions = accepted_per_position(view)
    return {
        "prompts": _requests(view.phase),
        "steps": steps,
        "draft_tokens": drafted,
        "accepted_tokens": accepted,
        "rate": rate,
        "length": length,
        "per_position": positions,
        "position_rates": [count / steps for count in positions] if steps else None,
        "cached_tokens_total": view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit"),
        "computed_tokens_total": view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_compute"),
    }


def measure_accuracy(accuracy: AccuracyEvidence) -> Measures:
    """Return one variant's right answers by either way of reading them, of those that could be scored."""
    scored = [sample for sample in accuracy.samples if sample.answer]
    return {
        "strict": sum(sample.strict for sample in scored),
        "flexible": sum(sample.flexible for sample in scored),
        "scored": len(scored),
        "data": f"{accuracy.data}, {accuracy.rows:,} problems, sha256 {accuracy.sha256[:12]}",
    }


def _requests(phase: PhaseEvidence) -> int:
    """Count the timed requests; those that a bench sent are what it says to have completed."""
    return int(phase.bench.timed.result.get("completed") or 0) if phase.bench else len(phase.requests)


def _per_request(total: int, requests: int) -> int | float | None:
    if not requests:
        return None
    return total // requests if total % requests == 0 else total / requests


def _throughput(phase: PhaseEvidence) -> float | None:
    completed = sum(record.ok for record in phase.requests)
    seconds = phase.finished_s - phase.started_s
    return completed / seconds if seconds > 0 else None


def _ttft_ms(phase: PhaseEvidence) -> Measures | None:
    times = [
        (record.first_token_s - record.sent_s) * 1000
        for record in phase.requests
        if record.ok and record.first_token_s is not None
    ]
    return _summary(times)


def _summary(times: list[float]) -> Measures | None:
    if not times:
        return None
    p50, p90, p99 = np.percentile(times, (50, 90, 99))
    return {"mean": float(np.mean(times)), "p50": float(p50), "p90": float(p90), "p99": float(p99)}


def delta(baseline: Measures, candidate: Measures) -> Measures:
    """Subtract number by number; what either side lacks is left out."""
    result: Measures = {}
    for key, value in baseline.items():
        other = candidate.get(key)
        if isinstance(value, dict) and isinstance(other, dict):
            result[key] = delta(value, other)
        elif isinstance(value, int | float) and isinstance(other, int | float):
            result[key] = other - value
    return result
