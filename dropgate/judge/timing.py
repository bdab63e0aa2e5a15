"""Times, compared within one run only: ratios of blocks, with an interval. Absolutes are never judged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from dropgate.evidence import TIMING, Evidence, PhaseEvidence
from dropgate.judge.measures import Measures
from dropgate.judge.verdict import Check, Verdict, valid
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.scenario.promises import TimingPromise

LEVEL = 0.95
"""Of the two-sided intervals."""


@dataclass(frozen=True)
class Interval:
    """A ratio, candidate to baseline, with its interval."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write it as people read it."""
        return f"x{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


def timing_metrics(evidence: Evidence) -> Measures | None:
    """Return the ratios of throughput and of time to first token, and how the blocks lay; ``None`` without blocks."""
    blocks = [_blocks(evidence, name) for name in VARIANT_NAMES]
    if not blocks[0] or len(blocks[0]) != len(blocks[1]):
        return None
    interleaved = is_interleaved(*blocks)
    found: Measures = {"design": "ABBA" if interleaved else "sequential", "blocks": len(blocks[0])}
    for name, value in VALUES.items():
        baseline, candidate = ([value(block) for block in side] for side in blocks)
        interval = ratio_interval(baseline, candidate, interleaved)
        found[name] = {"ratio": interval.ratio, "low": interval.low, "high": interval.high}
    return found


def judge_timing(evidence: Evidence, promise: TimingPromise) -> list[Check]:
    """Judge each bound by the whole interval: one that holds the bound inside decides nothing."""
    timing = evidence.scenario.workloads.timing
    wanted = timing.blocks if timing else 0
    sides = [_blocks(evidence, name) for name in VARIANT_NAMES]
    whole = [sum(_is_whole(block, timing.requests if timing else 0) for block in side) for side in sides]
    seen = f"{whole[0]} and {whole[1]} whole blocks"
    checks = [valid("timing.blocks", whole == [wanted, wanted] != [0, 0], f"{wanted} whole blocks each", seen)]
    if checks[0].verdict is not Verdict.PASS:
        return checks
    metrics = timing_metrics(evidence)
    assert metrics is not None  # noqa: S101  (there are blocks)
    bounds = {
        "throughput": (promise.throughput_at_least, True),
        "ttft_p50": (promise.ttft_p50_at_most, False),
        "ttft_p90": (promise.ttft_p90_at_most, False),
    }
    for name, (bound, at_least) in bounds.items():
        if bound is not None:
            checks.append(_judge_bound(f"timing.{name}", Interval(**metrics[name]), bound, at_least, metrics["design"]))
    return checks


def _judge_bound(name: str, seen: Interval, bound: float, at_least: bool, design: str) -> Check:
    held = seen.low >= bound if at_least else seen.high <= bound
    broken = seen.high < bound if at_least else seen.low > bound
    verdict = Verdict.PASS if held else Verdict.FAIL if broken else Verdict.INVALID
    undecided = "" if held or broken else ": inconclusive, take more blocks"
    return Check(name, verdict, f"{'at least' if at_least else 'at most'} x{bound:g}", f"{seen}, {design}{undecided}")


def ratio_interval(baseline: Sequence[float], candidate: Sequence[float], paired: bool) -> Interval:
    """Return the geometric mean of the ratio with its t interval, from one value a block.

    ``paired`` blocks lay beside each other, so each pair gives one ratio; else the two means of the logs are compared
    with Welch's degrees of freedom.
    """
    ours, theirs = np.log(candidate), np.log(baseline)
    count = len(ours)
    middle = float(np.mean(ours) - np.mean(theirs))
    if paired:
        error, freedom = float(np.std(ours - theirs, ddof=1)) / math.sqrt(count), count - 1.0
    else:
        parts = [float(np.var(side, ddof=1)) / count for side in (ours, theirs)]
        error = math.sqrt(sum(parts))
        spread = sum(part**2 for part in parts) / (count - 1)
        freedom = sum(parts) ** 2 / spread if spread else count - 1.0
    reach = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return Interval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def is_interleaved(baseline: Sequence[PhaseEvidence], candidate: Sequence[PhaseEvidence]) -> bool:
    """Tell whether the variants took turns, from when their blocks began."""
    starts = [(block.started_s, side) for side, blocks in enumerate((baseline, candidate)) for block in blocks]
    order = [side for _, side in sorted(starts)]
    return sum(one != other for one, other in itertools.pairwise(order)) > 1


def _blocks(evidence: Evidence, variant: VariantName) -> list[PhaseEvidence]:
    seen = evidence.variants.get(variant)
    phases = seen.phases if seen else {}
    numbered = {int(name.removeprefix(TIMING)): phase for name, phase in phases.items() if name.startswith(TIMING)}
    return [numbered[number] for number in sorted(numbered)]


def _is_whole(block: PhaseEvidence, requests: int) -> bool:
    answered = [record for record in block.requests if record.ok and record.first_token_s is not None]
    warm = all(record.ok for record in block.populate) and block.reset_ok
    return warm and len(answered) == len(block.requests) == requests and block.finished_s > block.started_s


def _throughput(block: PhaseEvidence) -> float:
    return len(block.requests) / (block.finished_s - block.started_s)


def _first_token(percent: int) -> Callable[[PhaseEvidence], float]:
    def value(block: PhaseEvidence) -> float:
        times = [one.first_token_s - one.sent_s for one in block.requests if one.first_token_s is not None]
        return float(np.percentile(times, percent))

    return value


VALUES: dict[str, Callable[[PhaseEvidence], float]] = {
    "throughput": _throughput,
    "ttft_p50": _first_token(50),
    "ttft_p90": _first_token(90),
}
