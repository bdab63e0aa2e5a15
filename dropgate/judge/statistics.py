"""Paired statistics over prompts. Prompts are the unit, never steps: the steps of one answer are not independent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

RESAMPLES = 9_999
DRAWN_AT_ONCE = 5_000_000
"""Prompts, over all resamples of a batch: 160 MB of counts."""
SEED = 20260901
"""Of the bootstrap: the same evidence gives the same interval, to the last digit."""


@dataclass(frozen=True)
class RateDifference:
    """How one ratio of sums, such as accepted over drafted tokens, changes from baseline to candidate.

    All are shares, not percent; ``lower`` and ``upper`` are one-sided bounds at the level asked for.
    """

    prompts: int
    baseline: float
    candidate: float
    standard_error: float
    lower: float
    upper: float
    bootstrap_lower: float
    smallest_detectable: float
    """The margin for which, with no drop at all, a pass has the power asked for."""

    @property
    def difference(self) -> float:
        """Candidate minus baseline."""
        return self.candidate - self.baseline

    def prompts_needed(self, margin: float) -> int:
        """Return how many prompts of this kind make ``margin`` detectable: the error falls with their root."""
        return math.ceil(self.prompts * (self.smallest_detectable / margin) ** 2)


Counts = Sequence[int]


def rate_difference(
    baseline: tuple[Counts, Counts], candidate: tuple[Counts, Counts], level: float, power: float
) -> RateDifference:
    """Compare two ratios of sums over the same prompts; each side is (accepted, drafted) tokens a prompt.

    Delta method: with R = sum(a) / sum(d), u_i = (aB_i - RB dB_i) / mean(dB) - (aA_i - RA dA_i) / mean(dA) and
    SE = sd(u) / sqrt(n), n - 1 below the variance (Cochran, Sampling Techniques, 6.3 and 6.12, for paired ratios).
    Beside it a percentile bootstrap that draws whole prompts. The smallest detectable drop is
    (z(1 - level) + z(power)) SE.

    Raises:
        ValueError: fewer than two prompts, sides of different lengths, or nothing drafted on one side.

    """
    sides, rates, error = _linearised(baseline, candidate)
    difference, z = float(rates[1] - rates[0]), float(ndtri(1 - level))
    return RateDifference(
        prompts=sides.shape[2],
        baseline=float(rates[0]),
        candidate=float(rates[1]),
        standard_error=error,
        lower=difference - z * error,
        upper=difference + z * error,
        bootstrap_lower=_bootstrap_lower(sides, level),
        smallest_detectable=(z + float(ndtri(power))) * error,
    )


def delta_interval(
    baseline: tuple[Counts, Counts], candidate: tuple[Counts, Counts], level: float
) -> tuple[float, float, float]:
    """Return the difference of two ratios of sums over the same prompts with both one-sided bounds; no bootstrap.

    Raises:
        ValueError: as ``rate_difference``.

    """
    _, rates, error = _linearised(baseline, candidate)
    difference, z = float(rates[1] - rates[0]), float(ndtri(1 - level))
    return difference, difference - z * error, difference + z * error


def _linearised(
    baseline: tuple[Counts, Counts], candidate: tuple[Counts, Counts]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the counts as an array, both ratios, and the standard error of their difference."""
    sides = np.array([baseline, candidate], dtype=float)  # (side, accepted or drafted, prompt)
    if sides.ndim != 3 or sides.shape[2] < 2:
        raise ValueError("at least two prompts are needed")
    if not sides[:, 1].sum(axis=1).all():
        raise ValueError("nothing was drafted in one variant")
    rates = sides[:, 0].sum(axis=1) / sides[:, 1].sum(axis=1)
    residuals = (sides[:, 0] - rates[:, None] * sides[:, 1]) / sides[:, 1].mean(axis=1)[:, None]
    error = float(np.std(residuals[1] - residuals[0], ddof=1) / math.sqrt(sides.shape[2]))
    return sides, rates, error


def _bootstrap_lower(sides: np.ndarray, level: float) -> float:
    from scipy.stats import bootstrap  # over a second to import, and needed for acceptance alone

    def difference(*columns: np.ndarray, axis: int) -> np.ndarray:
        sums = [column.sum(axis=axis) for column in columns]
        return np.asarray(sums[2] / sums[3] - sums[0] / sums[1])

    columns = (*sides[0], *sides[1])
    with np.errstate(invalid="ignore", divide="ignore"):
        found = bootstrap(
            columns,
            difference,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=max(1, min(500, DRAWN_AT_ONCE // sides.shape[2])),
            alternative="greater",
            confidence_level=1 - level,
            method="percentile",
            rng=np.random.default_rng(SEED),
        )
    return float(found.confidence_interval.low)


def tango_interval(only_candidate: int, only_baseline: int, count: int, level: float) -> tuple[float, float]:
    """Return Tango's score interval for the difference of two paired proportions, candidate minus baseline.

    ``only_candidate`` and ``only_baseline`` are the questions that one side alone has right, of ``count``; each end is
    a one-sided bound at ``level``. Tango, Statistics in Medicine 17 (1998), 891-908, equations 9 to 12.

    Raises:
        ValueError: no questions, or more differences than questions.

    """
    if not 0 <= only_candidate + only_baseline <= count or not count:
        raise ValueError(f"{only_candidate} and {only_baseline} of {count} questions differ")
    from scipy.optimize import brentq  # as above

    z = float(ndtri(1 - level))

    def excess(delta: float) -> float:
        return _tango_score(only_candidate, only_baseline, count, delta)

    low, high = -1 + 1e-12, 1 - 1e-12
    observed = (only_candidate - only_baseline) / count
    lower = float(brentq(lambda delta: excess(delta) - z, low, observed)) if excess(low) > z else -1.0
    upper = float(brentq(lambda delta: excess(delta) + z, observed, high)) if excess(high) < -z else 1.0
    return lower, upper


def _tango_score(b: int, c: int, count: int, delta: float) -> float:
    """Return (b - c - n delta) / sqrt(n (2 q + delta (1 - delta))), q the constrained estimate of c's probability."""
    linear = -b - c + (2 * count - b + c) * delta
    q = (math.sqrt(max(0.0, linear**2 + 8 * count * c * delta * (1 - delta))) - linear) / (4 * count)
    variance = count * (2 * q + delta * (1 - delta))
    distance = b - c - count * delta
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)
