"""Both variants must say the same: greedy output ids, token by token, but for ties that the control explains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scipy.stats import fisher_exact

from dropgate.evidence import RequestRecord
from dropgate.judge.verdict import Check, Verdict, passes
from dropgate.judge.view import PhaseView

SIGNIFICANT = 0.01
"""One-sided level at which ties are more frequent than in the control."""

Item = TypeVar("Item")
TopTwo = list[tuple[int, float]]


@dataclass(frozen=True)
class Divergence:
    """The first position at which two answers to one prompt differ."""

    index: int
    position: int
    left: int | None
    right: int | None
    margin: float | None
    """The larger of both sides' log-probability distances between their best two tokens, where these are the two
    tokens in question on both sides; ``None`` elsewhere, since then it is no tie."""

    def is_tie(self, noise: float) -> bool:
        """Tell whether the two tokens are each other's runner-up within ``noise``."""
        return self.margin is not None and self.margin <= noise

    def __str__(self) -> str:
        """Say where and what, as a person would."""
        margin = "not each other's runner-up" if self.margin is None else f"margin {self.margin:.4f}"
        return f"request #{self.index} at output token {self.position}: {self.left} against {self.right} ({margin})"


def divergences(left: Iterable[RequestRecord], right: Iterable[RequestRecord]) -> list[Divergence]:
    """Compare answers pairwise; records are paired by order."""
    found = (_first_divergence(one, other) for one, other in zip(left, right, strict=True))
    return [divergence for divergence in found if divergence]


def _first_divergence(left: RequestRecord, right: RequestRecord) -> Divergence | None:
    if left.token_ids == right.token_ids:
        return None
    position = _shared_length(left, right)
    sides = [(_at(one.token_ids, position), _at(one.top_logprobs, position)) for one in (left, right)]
    (ours, our_top), (theirs, their_top) = sides
    swapped = our_top and their_top and {ours, theirs} == _ids(our_top) == _ids(their_top)
    margin = max(_margin(our_top), _margin(their_top)) if swapped and our_top and their_top else None
    return Divergence(left.index, position, ours, theirs, margin)


def _shared_length(left: RequestRecord, right: RequestRecord) -> int:
    pairs = enumerate(zip(left.token_ids, right.token_ids, strict=False))
    shorter = min(len(left.token_ids), len(right.token_ids))
    return next((position for position, (ours, theirs) in pairs if ours != theirs), shorter)


def _at(items: Sequence[Item], position: int) -> Item | None:
    return items[position] if position < len(items) else None


def _ids(top: TopTwo) -> set[int]:
    return {token for token, _ in top}


def _margin(top: TopTwo) -> float:
    return top[0][1] - top[1][1]


def control_noise(records: Iterable[RequestRecord], control: Iterable[RequestRecord]) -> float:
    """Return by how much the margin between the same two tokens moved at most, over all positions before a divergence.

    In units of log probability; 0 when nothing moved.
    """
    moved = [0.0]
    for record, again in zip(records, control, strict=True):
        shared = _shared_length(record, again) + 1
        for ours, theirs in zip(record.top_logprobs[:shared], again.top_logprobs[:shared], strict=False):
            if len(ours) == len(theirs) == 2 and _ids(ours) == _ids(theirs):
                (first, second), other = ours, dict(theirs)
                moved.append(abs((first[1] - second[1]) - (other[first[0]] - other[second[0]])))
    return max(moved)


def judge_outputs(baseline: PhaseView, candidate: PhaseView, control_size: int) -> list[Check]:
    """Judge that every answer is the same in both variants, with the baseline's own noise as the measure of a tie."""
    records, control = baseline.phase.requests, baseline.phase.control
    whole = len(control) == control_size and all(again.ok and again.cached_tokens == 0 for again in control)
    expected, seen = f"{control_size} cold answers", f"{len(control)} answers, cold: {'yes' if whole else 'no'}"
    checks = [passes("outputs.control", whole, expected, seen, otherwise=Verdict.INVALID)]
    if not whole:
        return checks
    repeated = [records[again.index] for again in control]
    noise = control_noise(repeated, control)
    found = divergences(records, candidate.phase.requests)
    wrong = [divergence for divergence in found if not divergence.is_tie(noise)]
    control_found = len(divergences(repeated, control))
    checks.append(_judge_tokens(records, wrong, len(found) - len(wrong), noise))
    checks.append(judge_rate(len(found), len(records), control_found, len(control)))
    return checks


def _judge_tokens(records: list[RequestRecord], wrong: list[Divergence], ties: int, noise: float) -> Check:
    total = sum(len(record.token_ids) for record in records)
    expected = f"{total:,} equal output tokens, ties within the control's noise of {noise:.4f} apart"
    seen = f"{len(wrong)} of {len(records)} answers differ, {ties} ties"
    if wrong:
        seen += "; first: " + "; ".join(map(str, wrong[:3]))
    return passes("outputs.identical", not wrong, expected, seen)


def judge_rate(found: int, total: int, control_found: int, control_total: int) -> Check:
    """Judge that answers do not diverge more often than in the control (Fisher's exact test, one-sided)."""
    expected = f"no more divergences than the control's {control_found} of {control_total}"
    good = found == 0
    if found and control_total:
        table = [[found, total - found], [control_found, control_total - control_found]]
        good = bool(fisher_exact(table, alternative="greater").pvalue >= SIGNIFICANT)
    return passes("outputs.divergence_rate", good, expected, f"{found} of {total}")
