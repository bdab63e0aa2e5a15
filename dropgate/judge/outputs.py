"""Both variants must say the same: greedy output ids, token by token."""

from __future__ import annotations

from dataclasses import dataclass

from dropgate.evidence import RequestRecord
from dropgate.judge.verdict import Check, passes
from dropgate.judge.view import PhaseView


@dataclass(frozen=True)
class Divergence:
    """The first position at which two answers to one prompt differ."""

    index: int
    position: int
    baseline_token: int | None
    candidate_token: int | None
    margin: float | None
    """Log-probability distance between the baseline's best two tokens there; ``None`` where not recorded."""

    def __str__(self) -> str:
        """Say where and what, as a person would."""
        margin = "unknown" if self.margin is None else f"{self.margin:.4f}"
        return (
            f"request #{self.index} at output token {self.position}: {self.baseline_token} against "
            f"{self.candidate_token} (top-2 margin {margin})"
        )


def divergences(baseline: list[RequestRecord], candidate: list[RequestRecord]) -> list[Divergence]:
    """Compare answers pairwise; records are paired by order."""
    found = (_first_divergence(left, right) for left, right in zip(baseline, candidate, strict=True))
    return [divergence for divergence in found if divergence]


def _first_divergence(left: RequestRecord, right: RequestRecord) -> Divergence | None:
    if left.token_ids == right.token_ids:
        return None
    ours, theirs = left.token_ids, right.token_ids
    position = next(
        (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    top = left.top_logprobs[position] if position < len(left.top_logprobs) else []
    return Divergence(
        left.index,
        position,
        ours[position] if position < len(ours) else None,
        theirs[position] if position < len(theirs) else None,
        top[0][1] - top[1][1] if len(top) == 2 else None,
    )


def judge_outputs(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Judge that every answer is the same in both variants."""
    found = divergences(baseline.phase.requests, candidate.phase.requests)
    total = sum(len(record.token_ids) for record in baseline.phase.requests)
    seen = f"{len(found)} of {len(baseline.phase.requests)} answers differ" if found else f"{total:,} tokens, all equal"
    if found:
        seen += "; first: " + "; ".join(map(str, found[:3]))
    return [passes("outputs.identical", not found, f"{total:,} equal output tokens", seen)]
