"""Where two greedy answers part, and how far the engine's own noise moves a choice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scipy.special import stdtrit

from dropgate.evidence import RequestRecord
from dropgate.judge.verdict import Check, passes

LEVEL = 0.01
"""Probability, over a whole run, that noise alone is taken for a difference; and the level of the rate's test."""

Item = TypeVar("Item")
TopTwo = list[tuple[int, float]]


@dataclass(frozen=True)
class Divergence:
    """The first position at which two answers to one prompt differ."""

    index: int
    position: int
    left: int | None
    right: int | None
    moved: float | None
    """By how much the margin between the two tokens moved, in log probability: the sum of both sides' margins, where
    the two are each other's runner-up; ``None`` elsewhere, since then it is no tie."""

    def is_tie(self, bound: float) -> bool:
        """Tell whether the two tokens are each other's runner-up and moved no further than noise does."""
        return self.moved is not None and self.moved <= bound

    def __str__(self) -> str:
        """Say where and what, as a person would."""
        moved = "not each other's runner-up" if self.moved is None else f"margin moved by {self.moved:.4f}"
        return f"request #{self.index} at output token {self.position}: {self.left} against {self.right} ({moved})"


def divergences(left: Iterable[RequestRecord], right: Iterable[RequestRecord]) -> list[Divergence]:
    """Compare answers pairwise; records are paired by order."""
    found = (_first_divergence(one, other) for one, other in zip(left, right, strict=True))
    return [divergence for divergence in found if divergence]


def _first_divergence(left: RequestRecord, right: RequestRecord) -> Divergence | None:
    if left.token_ids == right.token_ids:
        return None
    position = shared_length(left, right)
    sides = [(_at(one.token_ids, position), _at(one.top_logprobs, position)) for one in (left, right)]
    (ours, our_top), (theirs, their_top) = sides
    swapped = our_top and their_top and {ours, theirs} == _ids(our_top) == _ids(their_top)
    moved = _margin(our_top) + _margin(their_top) if swapped and our_top and their_top else None
    return Divergence(left.index, position, ours, theirs, moved)


def shared_length(left: RequestRecord, right: RequestRecord) -> int:
    """Return how many leading output tokens two answers share."""
    pairs = enumerate(zip(left.token_ids, right.token_ids, strict=False))
    shorter = min(len(left.token_ids), len(right.token_ids))
    return next((position for position, (ours, theirs) in pairs if ours != theirs), shorter)


def _at(items: Sequence[Item], position: int) -> Item | None:
    return items[position] if position < len(items) else None


def _ids(top: TopTwo) -> set[int]:
    return {token for token, _ in top}


def _margin(top: TopTwo) -> float:
    return top[0][1] - top[1][1]


def control_movements(records: Iterable[RequestRecord], control: Iterable[RequestRecord]) -> list[float]:
    """Return by how much the margin between the same two tokens moved, at each position up to a divergence.

    In units of log probability, signed.
    """
    movements = []
    for record, again in zip(records, control, strict=True):
        shared = shared_length(record, again) + 1
        for ours, theirs in zip(record.top_logprobs[:shared], again.top_logprobs[:shared], strict=False):
            if len(ours) == len(theirs) == 2 and _ids(ours) == _ids(theirs):
                (first, second), other = ours, dict(theirs)
                movements.append(_margin(ours) - (other[first[0]] - other[second[0]]))
    return movements


def noise_bound(movements: Sequence[float], comparisons: int) -> float:
    """Return how far a margin may move by noise alone, in units of log probability.

    The two-sided normal prediction bound around 0 for the largest of ``comparisons`` further draws (Bonferroni), from
    the control's movements m: t(1 - LEVEL / 2c; n) * sqrt(sum(m^2) / n) * sqrt(1 + 1/n). Without noise it is 0, so
    that one mismatch fails.
    """
    count = len(movements)
    if not any(movements):
        return 0.0
    spread = math.sqrt(sum(moved * moved for moved in movements) / count)
    return float(stdtrit(count, 1 - LEVEL / (2 * comparisons))) * spread * math.sqrt(1 + 1 / count)


def judge_rate(name: str, found: int, total: int, control_found: int, control_total: int) -> Check:
    """Judge that answers do not diverge more often than in the control (Fisher's exact test, one-sided)."""
    expected = f"no more divergences than the control's {control_found} of {control_total}"
    good = found == 0
    if found and control_total:
        from scipy.stats import fisher_exact  # over a second to import, and seldom needed

        table = [[found, total - found], [control_found, control_total - control_found]]
        good = bool(fisher_exact(table, alternative="greater").pvalue >= LEVEL)
    return passes(name, good, expected, f"{found} of {total}")
