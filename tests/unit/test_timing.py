"""Times: ratios of blocks with an interval, judged by the whole interval, and never an absolute."""

from __future__ import annotations

import math

import pytest

from dropgate.errors import InputError
from dropgate.evidence import Evidence, PhaseEvidence
from dropgate.judge import Verdict, judge
from dropgate.judge.timing import judge_timing, ratio_interval
from dropgate.law import VARIANT_NAMES
from dropgate.references import load_reference
from dropgate.report.tables import timing_line
from dropgate.scenario import load_scenario
from dropgate.scenario.promises import TimingPromise
from tests.support.factory import SIZES, evidence, record

SCENARIO = load_scenario("tiny_eagle3_cpu", (*SIZES, "workloads.timing={blocks: 4, requests: 2}"))
BASELINE, CANDIDATE = (2.0, 2.2, 1.9, 2.1), (1.0, 1.12, 0.94, 1.06)
ABBA = {"baseline": (0, 30, 40, 70), "candidate": (10, 20, 50, 60)}
APART = {"baseline": (0, 10, 20, 30), "candidate": (40, 50, 60, 70)}


def block(started_s: float, seconds: float, first_token_s: float, requests: int = 2) -> PhaseEvidence:
    times = {"sent_s": started_s, "first_token_s": started_s + first_token_s, "finished_s": started_s + seconds}
    records = [record(index, 3072).model_copy(update=times) for index in range(requests)]
    return PhaseEvidence(
        reset_ok=True,
        populate=[record(0, 0)],
        requests=records,
        metrics_before="",
        metrics_after="",
        started_s=started_s,
        finished_s=started_s + seconds,
    )


def timed(starts: dict[str, tuple[int, ...]] = ABBA, requests: int = 2, blocks: int = 4) -> Evidence:
    whole = evidence().model_copy(update={"scenario": SCENARIO})
    variants = {}
    for name, seconds in zip(VARIANT_NAMES, (BASELINE, CANDIDATE), strict=True):
        phases = {
            f"timing-{index}": block(starts[name][index], seconds[index], seconds[index] / 4, requests)
            for index in range(blocks)
        }
        seen = whole.variants[name]
        variants[name] = seen.model_copy(update={"phases": {**seen.phases, **phases}})
    return whole.model_copy(update={"variants": variants})


def verdicts(seen: Evidence, **bounds: float) -> list[tuple[str, str]]:
    return [(check.name, check.verdict.value) for check in judge_timing(seen, TimingPromise(kind="timing", **bounds))]


def test_the_interval_of_paired_blocks_is_that_of_their_log_ratios() -> None:
    found = ratio_interval([1.0, 1.0, 1.0], [1.0, math.e, math.e**2], paired=True)
    # Mean 1, standard deviation 1 over 3 blocks; t(0.975; 2) = 4.3027.
    assert math.log(found.ratio) == pytest.approx(1)
    assert math.log(found.high) == pytest.approx(1 + 4.3027 / math.sqrt(3), abs=1e-4)
    assert math.log(found.low) == pytest.approx(1 - 4.3027 / math.sqrt(3), abs=1e-4)


def test_blocks_apart_have_welchs_interval() -> None:
    found = ratio_interval([1.0, math.e, math.e**2], [1.0, math.e, math.e**2], paired=False)
    # Both have variance 1 over 3 blocks: t(0.975; 4) = 2.7764 times sqrt(2 / 3).
    assert math.log(found.high) == pytest.approx(2.7764 * math.sqrt(2 / 3), abs=1e-4)


def test_blocks_without_spread_have_a_point() -> None:
    found = ratio_interval([1.0, 1.0], [2.0, 2.0], paired=False)
    assert (found.low, found.high) == pytest.approx((2.0, 2.0))


def test_taking_turns_is_seen_and_makes_the_interval_smaller() -> None:
    paired, apart = (judge(timed(starts)).metrics["timing"] for starts in (ABBA, APART))
    assert (paired["design"], apart["design"]) == ("ABBA", "sequential")
    assert paired["throughput"]["ratio"] == pytest.approx(apart["throughput"]["ratio"]) == pytest.approx(1.99, abs=0.01)
    assert paired["throughput"]["high"] < apart["throughput"]["high"]
    assert paired["ttft_p50"]["ratio"] == pytest.approx(0.5024, abs=1e-3)


def test_the_report_says_how_the_blocks_lay() -> None:
    taking_turns = timing_line(judge(timed()))
    assert taking_turns is not None
    assert "throughput x1.992 [1.953, 2.031]" in taking_turns
    assert "4 blocks each, taking turns (ABBA)" in taking_turns
    assert "so drift is in them" in (timing_line(judge(timed(APART))) or "")
    assert timing_line(judge(evidence())) is None


def test_a_bound_is_held_broken_or_undecided_by_the_whole_interval() -> None:
    assert verdicts(timed(), throughput_at_least=1.9)[1:] == [("timing.throughput", "pass")]
    assert verdicts(timed(), throughput_at_least=2.1)[1:] == [("timing.throughput", "fail")]
    assert verdicts(timed(), throughput_at_least=1.99)[1:] == [("timing.throughput", "invalid")]
    assert verdicts(timed(), ttft_p50_at_most=0.6, ttft_p90_at_most=0.4)[1:] == [
        ("timing.ttft_p50", "pass"),
        ("timing.ttft_p90", "fail"),
    ]


@pytest.mark.parametrize("cut", [{"blocks": 3}, {"blocks": 0}, {"requests": 1}])
def test_blocks_that_are_missing_or_cut_short_are_invalid(cut: dict[str, int]) -> None:
    assert verdicts(timed(**cut), throughput_at_least=1.0) == [("timing.blocks", "invalid")]


def test_a_timing_promise_without_blocks_is_refused() -> None:
    with pytest.raises(InputError, match=r"timing is judged on workloads\.timing, which is not there"):
        load_scenario("tiny_eagle3_cpu", ("promises=[{kind: timing, throughput_at_least: 1}]",))


def test_the_gpu_scenarios_bounds_are_the_references_ratios_with_its_margin() -> None:
    (promise,) = [one for one in load_scenario("kimi_k3_dspark_gb300").promises if isinstance(one, TimingPromise)]
    ratios = load_reference("kimi_k3_dspark_gb300").ratios
    assert ratios is not None
    assert promise.throughput_at_least == pytest.approx(ratios.throughput * (1 - ratios.margin), abs=5e-4)
    assert promise.ttft_p50_at_most == pytest.approx(ratios.ttft_p50 * (1 + ratios.margin), abs=5e-4)
    assert promise.ttft_p90_at_most == pytest.approx(ratios.ttft_p90 * (1 + ratios.margin), abs=5e-4)


def test_a_judged_run_carries_the_verdict_of_its_times() -> None:
    slow = SCENARIO.model_copy(
        update={"promises": [*SCENARIO.promises, TimingPromise(kind="timing", throughput_at_least=3.0)]}
    )
    assert judge(timed().model_copy(update={"scenario": slow})).verdict is Verdict.FAIL
