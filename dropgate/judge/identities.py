"""Identities that hold in every valid run: what requests report, what counters say and what was sent agree."""

from __future__ import annotations

import itertools

from dropgate.judge.verdict import Check, passes, tokens
from dropgate.judge.view import PhaseView
from dropgate.metrics import (
    ACCEPTED_PER_POSITION,
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    HITS,
    PROMPT_TOKENS,
    PROMPT_TOKENS_BY_SOURCE,
    QUERIES,
)


def equal(name: str, expected: int, seen: int) -> Check:
    """Return a check that two counts are one."""
    return passes(name, expected == seen, tokens(expected), tokens(seen))


def judge_identities(view: PhaseView, draft_length: int) -> list[Check]:
    """Judge the identities of one variant; ``draft_length`` is K, draft tokens a step at most."""
    stem, rises, records = view.stem, view.rises, view.phase.requests
    sent = sum(record.prompt_tokens_sent for record in records)
    cached = sum(record.cached_tokens or 0 for record in records)
    by_source = rises.by_label(PROMPT_TOKENS_BY_SOURCE, "source")
    odd = [
        f"#{record.index}: {record.cached_tokens} of {record.prompt_tokens_sent}"
        for record in records
        if not _is_possible(record.cached_tokens, record.prompt_tokens_sent, view.unit)
    ]
    return [
        equal(f"{stem}.prompt_tokens_total", sent, rises.total(PROMPT_TOKENS)),
        equal(f"{stem}.sources_sum_to_total", rises.total(PROMPT_TOKENS), sum(by_source.values())),
        equal(
            f"{stem}.requests_sum_to_source",
            cached,
            rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit"),
        ),
        equal(f"{stem}.requests_sum_to_hits", cached, rises.total(HITS)),
        equal(f"{stem}.queries_are_prompt_tokens", sent, rises.total(QUERIES)),
        passes(
            f"{stem}.hits_are_whole_units",
            not odd,
            f"multiples of {tokens(view.unit)} below the prompt's length",
            "; ".join(odd[:3]) or "all are",
        ),
        *judge_speculation(view, draft_length),
    ]


def _is_possible(cached: int | None, length: int, unit: int) -> bool:
    return cached is not None and 0 <= cached <= length - 1 and cached % unit == 0


def accepted_per_position(view: PhaseView) -> list[int]:
    """Return accepted tokens by draft position, as the counters have them."""
    positions = view.rises.by_label(ACCEPTED_PER_POSITION, "position")
    return [positions[key] for key in sorted(positions, key=int)]


def judge_speculation(view: PhaseView, draft_length: int) -> list[Check]:
    """Judge what the counters of drafts say of each other; ``draft_length`` is K, draft tokens a step at most."""
    stem, rises = view.stem, view.rises
    steps, drafted, accepted = (rises.total(name) for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS))
    per_position = accepted_per_position(view)
    falling = all(later <= earlier for earlier, later in itertools.pairwise(per_position))
    return [
        passes(
            f"{stem}.drafts_bounded",
            accepted <= drafted <= draft_length * steps,
            f"accepted <= drafted <= {draft_length} x steps",
            f"{tokens(accepted)} accepted, {tokens(drafted)} drafted, {tokens(steps)} steps",
        ),
        passes(
            f"{stem}.positions_sum_to_accepted",
            falling and sum(per_position) == accepted,
            f"{tokens(accepted)} over positions that never rise",
            f"{tokens(sum(per_position))}: {per_position}",
        ),
    ]
