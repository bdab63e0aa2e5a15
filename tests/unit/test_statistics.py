"""The statistics against independent values: by hand, by published examples, by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from dropgate.judge.statistics import rate_difference, tango_interval
from dropgate.law import acceptance
from dropgate.references import load_reference

LEVEL, POWER = 0.05, 0.8


def test_scenario_bs_own_numbers() -> None:
    """40.564 %, 40.717 %, +0.153 pp, 3.84, 3.85 follow from the published counters."""
    seen = [load_reference("kimi_k3_dspark_gb300").measures(name)["acceptance"] for name in ("baseline", "candidate")]
    assert [seen[0]["draft_tokens"], seen[1]["draft_tokens"]] == [7 * seen[0]["steps"], 7 * seen[1]["steps"]]
    assert [f"{side['rate']:.3%}" for side in seen] == ["40.564%", "40.717%"]
    assert f"{100 * (seen[1]['rate'] - seen[0]['rate']):+.3f}" == "+0.153"
    assert [f"{side['length']:.2f}" for side in seen] == ["3.84", "3.85"]


def test_without_drafts_there_is_no_rate() -> None:
    assert acceptance(0, 0, 0) == (None, None)


def test_the_delta_method_by_hand() -> None:
    """Two prompts: A 2/4 and 1/4, B 3/4 and 1/4. u = (3 - 2)/4 - (2 - 1.5)/4 = 1/8 and its negative."""
    seen = rate_difference(([2, 1], [4, 4]), ([3, 1], [4, 4]), LEVEL, POWER)
    assert (seen.baseline, seen.candidate, seen.difference) == (3 / 8, 4 / 8, 1 / 8)
    error = math.sqrt(2 * (1 / 8) ** 2 / 1) / math.sqrt(2)
    assert seen.standard_error == pytest.approx(error)
    assert seen.lower == pytest.approx(1 / 8 - stats.norm.ppf(0.95) * error)
    assert seen.smallest_detectable == pytest.approx((stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) * error)


def test_the_same_counts_differ_by_nothing() -> None:
    seen = rate_difference(([2, 1], [4, 4]), ([2, 1], [4, 4]), LEVEL, POWER)
    assert (seen.difference, seen.standard_error, seen.lower, seen.bootstrap_lower) == (0, 0, 0, 0)


@pytest.mark.parametrize("side", [([1], [2]), ([0, 0], [0, 0]), ([], [])])
def test_what_cannot_be_compared_is_refused(side: tuple[list[int], list[int]]) -> None:
    with pytest.raises(ValueError, match=r"prompts|drafted"):
        rate_difference(side, side, LEVEL, POWER)


def draw(prompts: int, drop: float, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Prompts differ in length and in rate; the candidate's own draft steps differ by chance."""
    random = np.random.default_rng(seed)
    rate = random.beta(8, 12, prompts)
    sides = []
    for lost in (0.0, drop):
        drafted = 7 * random.integers(20, 90, prompts)
        sides.append((random.binomial(drafted, np.clip(rate - lost, 0, 1)), drafted))
    return sides[0], sides[1]


def test_the_delta_method_and_the_bootstrap_agree() -> None:
    seen = rate_difference(*draw(400, 0.0, 1), LEVEL, POWER)
    assert seen.bootstrap_lower == pytest.approx(seen.lower, abs=0.15 * seen.standard_error)


def test_a_drop_of_the_margin_passes_one_time_in_twenty_and_no_drop_has_the_promised_power(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Binomial bounds at 1 in 1,000 around 5 % and around the power, over 600 runs of 150 prompts each."""
    monkeypatch.setattr("dropgate.judge.statistics._bootstrap_lower", lambda *_: 0.0)
    runs = 600
    margin = np.mean([rate_difference(*draw(150, 0, seed), LEVEL, POWER).smallest_detectable for seed in range(100)])

    def passed(drop: float) -> int:
        seen = (rate_difference(*draw(150, drop, 1000 + seed), LEVEL, POWER) for seed in range(runs))
        return sum(one.lower > -margin for one in seen)

    low, high = stats.binom.ppf([0.0005, 0.9995], runs, LEVEL)
    assert low <= passed(float(margin)) <= high
    low, high = stats.binom.ppf([0.0005, 0.9995], runs, POWER)
    assert low <= passed(0.0) <= high


def test_tangos_interval_on_a_published_example() -> None:
    """Airway hyper-responsiveness before and after: 1 and 7 of 21 changed; -0.517 to -0.026 at 95 %.

    Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014), 2850-2875.
    """
    lower, upper = tango_interval(1, 7, 21, 0.025)
    assert (round(lower, 3), round(upper, 3)) == (-0.517, -0.026)


def test_tangos_interval_without_any_change_has_a_closed_form() -> None:
    """With no discordant pair the score is solved by z^2 / (n + z^2)."""
    z = stats.norm.ppf(0.95)
    assert tango_interval(0, 0, 200, 0.05) == pytest.approx((-(z**2) / (200 + z**2), z**2 / (200 + z**2)))


def test_tangos_interval_is_symmetric_and_reaches_the_ends() -> None:
    lower, upper = tango_interval(5, 2, 60, 0.05)
    assert tango_interval(2, 5, 60, 0.05) == pytest.approx((-upper, -lower))
    assert tango_interval(9, 0, 9, 0.05)[1] == 1.0
    with pytest.raises(ValueError, match="questions differ"):
        tango_interval(5, 6, 10, 0.05)
