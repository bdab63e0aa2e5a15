"""Each way in which a change of the acceptance rate is decided, by itself; the margin is one percentage point."""

import pytest

from dropgate.judge.acceptance import _judge_difference
from dropgate.judge.statistics import RateDifference
from dropgate.scenario.promises import AcceptancePromise

PROMISE = AcceptancePromise(kind="acceptance", path="cold", margin_pp=1.0)


@pytest.mark.parametrize(
    ("lower", "upper", "bootstrap", "smallest", "verdict"),
    [
        (-0.005, 0.005, -0.005, 0.008, "pass"),
        (-0.015, -0.005, -0.015, 0.008, "fail"),  # not shown to be above the margin, by a run that was large enough
        (-0.090, -0.030, -0.090, 0.040, "fail"),  # clearly below it, however small the run
        (-0.030, 0.030, -0.030, 0.045, "invalid"),  # too small a run
        (-0.009, 0.001, -0.011, 0.008, "invalid"),  # the two bounds disagree
    ],
)
def test_pass_fail_or_inconclusive(lower: float, upper: float, bootstrap: float, smallest: float, verdict: str) -> None:
    middle = (lower + upper) / 2
    seen = RateDifference(100, 0.4, 0.4 + middle, 0.003, lower, upper, bootstrap, smallest)
    assert _judge_difference("acceptance", seen, PROMISE).verdict == verdict
