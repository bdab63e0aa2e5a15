"""The judge: what passes, what fails, what is invalid, and that the right check says so."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dropgate.evidence import RequestRecord
from dropgate.judge import Judgement, Verdict, judge
from dropgate.judge.divergence import judge_rate, noise_bound
from dropgate.judge.verdict import Check, combine
from tests.support.factory import LENGTH, Seen, evidence, seen


def odd(judgement: Judgement) -> dict[str, Check]:
    return {check.name: check for check in judgement.checks if check.verdict is not Verdict.PASS}


def with_request(base: Seen, index: int, **changes: object) -> Seen:
    requests = [record.model_copy(update=changes) if record.index == index else record for record in base.requests]
    return replace(base, requests=requests)


def with_after(base: Seen, **changes: object) -> Seen:
    return replace(base, after=replace(base.after, **changes))


BASE, CAND = seen("baseline"), seen("candidate")


def test_a_healthy_run_passes_every_check() -> None:
    judgement = judge(evidence())
    assert odd(judgement) == {}
    assert judgement.verdict is Verdict.PASS
    assert judgement.metrics["delta"]["cached_tokens_per_request"] == 1536
    assert judgement.metrics["candidate"]["request_throughput"] == 3.0
    assert judgement.metrics["baseline"]["ttft_ms"]["p90"] == pytest.approx(1000)


def test_an_ignored_option_fails_and_says_so() -> None:
    judgement = judge(evidence(candidate=BASE))
    assert judgement.verdict is Verdict.FAIL
    delta = odd(judgement)["prefix.delta.cached_tokens_per_request"]
    assert (delta.expected, delta.seen) == ("+1,536", "0")


def test_a_baseline_that_keeps_the_block_fails_for_the_baseline() -> None:
    found = odd(judge(evidence(baseline=CAND)))
    assert found["prefix.baseline.cached_tokens_per_request"].expected == "3,072"
    assert found["prefix.baseline.cached_tokens_per_request"].seen == "4,608"
    assert not any("candidate.cached" in name for name in found)


def test_one_request_of_many_is_enough_to_fail() -> None:
    found = odd(judge(evidence(candidate=with_request(CAND, 4, cached_tokens=3072))))
    assert found["prefix.candidate.cached_tokens_per_request"].verdict is Verdict.FAIL
    assert found["prefix.candidate.cached_tokens_per_request"].seen == "4,608 on 5 requests, 3,072 on #4"
    assert found["prefix.candidate.requests_sum_to_hits"].verdict is Verdict.FAIL


def test_one_other_token_fails() -> None:
    found = odd(judge(evidence(candidate=with_request(CAND, 2, token_ids=[7]))))
    assert list(found) == ["outputs.identical"]
    assert found["outputs.identical"].seen.startswith(
        "1 of 6 answers differ, 0 ties; first: request #2 at output token 0"
    )


def with_control(*tops: list[tuple[int, float]]) -> Seen:
    control = [
        again.model_copy(update={"top_logprobs": [top], "token_ids": [top[0][0]]})
        for again, top in zip(BASE.control, tops, strict=True)
    ]
    return replace(BASE, control=tuple(control))


NEAR = {"token_ids": [7], "top_logprobs": [[(7, -0.9), (102, -1.0)]]}
NOISY = with_control([(100, -0.75), (7, -1.5)], [(101, -0.5), (7, -1.25)])
"""The margins of 1.0 were 0.75 in the control: movements of 0.25, which bound noise at 7.5."""


@pytest.mark.parametrize(
    ("base", "margin", "verdict"), [(NOISY, 7.0, Verdict.PASS), (NOISY, 8.0, Verdict.FAIL), (BASE, 0.1, Verdict.FAIL)]
)
def test_a_divergence_is_a_tie_only_within_the_controls_noise(base: Seen, margin: float, verdict: Verdict) -> None:
    close = with_request(base, 2, top_logprobs=[[(102, -0.9), (7, -0.9 - margin)]])
    assert judge(evidence(close, with_request(CAND, 2, **NEAR))).verdict is verdict


def test_the_noise_bound_is_the_prediction_bound() -> None:
    assert noise_bound([0.25, -0.25], 6) == pytest.approx(stats.t(2).ppf(1 - 0.01 / 12) * 0.25 * math.sqrt(1.5))
    assert noise_bound([0.0] * 12, 160) == 0
    assert noise_bound([], 160) == 0


def test_noise_alone_is_rarely_taken_for_a_difference() -> None:
    """Of 1,000 runs of pure noise, about 1 % exceed the bound somewhere."""
    draw = np.random.default_rng(7)
    alarms = 0
    for _ in range(1000):
        movements = draw.normal(0, 0.04, 172)
        alarms += abs(movements[12:]).max() > noise_bound(movements[:12].tolist(), 160)
    assert 1 <= alarms <= 25


def test_another_runner_up_is_no_tie() -> None:
    close = with_request(NOISY, 2, top_logprobs=[[(102, -0.9), (8, -1.0)]])
    found = odd(judge(evidence(close, with_request(CAND, 2, **NEAR))))
    assert "not each other's runner-up" in found["outputs.identical"].seen


@pytest.mark.parametrize(
    ("found", "control_found", "verdict"),
    [(0, 0, Verdict.PASS), (1, 0, Verdict.PASS), (80, 0, Verdict.FAIL), (80, 4, Verdict.PASS), (160, 4, Verdict.FAIL)],
)
def test_ties_far_more_often_than_in_the_control_fail(found: int, control_found: int, verdict: Verdict) -> None:
    assert judge_rate("rate", found, 160, control_found, 8).verdict is verdict


@pytest.mark.parametrize("control", [(), (BASE.control[0],), (BASE.control[0], BASE.requests[1])])
def test_a_control_that_is_not_whole_and_cold_is_invalid(control: tuple[RequestRecord, ...]) -> None:
    found = odd(judge(evidence(baseline=replace(BASE, control=control))))
    assert {name: check.verdict for name, check in found.items()} == {"outputs.control": Verdict.INVALID}


FAILS: dict[str, Seen] = {
    "prefix.candidate.cached_tokens_total": with_after(CAND, hit=CAND.after.hit + 1, computed=CAND.after.computed - 1),
    "prefix.candidate.computed_tokens_total": with_after(CAND, computed=CAND.after.computed + 1536),
    "prefix.candidate.sources_sum_to_total": with_after(CAND, computed=CAND.after.computed + 1),
    "prefix.candidate.prompt_tokens_total": with_after(CAND, prompt=CAND.after.prompt + 1),
    "prefix.candidate.requests_sum_to_hits": with_after(CAND, hits=CAND.after.hits - 1),
    "prefix.candidate.queries_are_prompt_tokens": with_after(CAND, queries=CAND.after.queries + LENGTH),
    "prefix.candidate.hits_are_whole_units": with_request(CAND, 0, cached_tokens=4607),
}


@pytest.mark.parametrize("name", FAILS)
def test_a_broken_identity_fails(name: str) -> None:
    judgement = judge(evidence(candidate=FAILS[name]))
    assert judgement.verdict is Verdict.FAIL
    assert odd(judgement)[name].verdict is Verdict.FAIL


INVALIDS: dict[str, Seen] = {
    "prefix.candidate.reset": replace(CAND, reset_ok=False),
    "prefix.candidate.populated": replace(CAND, populate=[]),
    "prefix.candidate.populated_cold": replace(
        CAND, populate=[CAND.populate[0].model_copy(update={"cached_tokens": 1536})]
    ),
    "prefix.candidate.requests_complete": with_request(CAND, 3, error="HTTP 500", http_status=500),
    "prefix.candidate.prefix_caching": replace(
        with_after(CAND, caching="False"), before=replace(CAND.before, caching="False")
    ),
    "prefix.candidate.no_preemption": with_after(CAND, preemptions=1),
    "prefix.candidate.no_external_cache": with_after(CAND, external=16),
    "prefix.candidate.no_other_traffic": with_after(CAND, length=8),
    "prefix.candidate.counters": with_after(CAND, start=2000.5),
    "prefix.pair.same_work": with_request(CAND, 0, prompt_sha256="f" * 64),
    "prefix.pair.same_config": replace(
        CAND, before=replace(CAND.before, unit="768"), after=replace(CAND.after, unit="768")
    ),
}


@pytest.mark.parametrize("name", INVALIDS)
def test_a_run_not_worth_judging_is_invalid_and_no_promise_is_judged(name: str) -> None:
    judgement = judge(evidence(candidate=INVALIDS[name]))
    assert judgement.verdict is Verdict.INVALID
    assert odd(judgement)[name].verdict is Verdict.INVALID
    assert odd(judgement)["prefix_law"].seen.startswith("not judged")


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_tokens": LENGTH - 1},
        {"prompt_echo_matches": False},
        {"prompt_echo_matches": None},
        {"cached_tokens": None},
        {"token_ids": []},
        {"finish_reason": None},
    ],
)
def test_an_answer_that_is_not_whole_is_invalid(change: dict[str, object]) -> None:
    assert "prefix.baseline.requests_complete" in odd(judge(evidence(baseline=with_request(BASE, 1, **change))))


def test_no_hit_in_either_variant_proves_nothing() -> None:
    def missed(base: Seen) -> Seen:
        requests = [record.model_copy(update={"cached_tokens": 0}) for record in base.requests]
        return replace(base, requests=requests, after=replace(base.after, hit=0, hits=0))

    judgement = judge(evidence(missed(BASE), missed(CAND)))
    assert judgement.verdict is Verdict.INVALID
    assert "prefix.pair.hit_path" in odd(judgement)


def test_a_run_that_ended_early_is_invalid_with_its_reason() -> None:
    judgement = judge(evidence(errors=("candidate: the engine ended with code 1",)))
    assert judgement.verdict is Verdict.INVALID
    assert odd(judgement)["run.whole"].seen == "candidate: the engine ended with code 1"


FULL = "0123456789abcdef0123456789abcdef01234567"


def of_commit(asked: str | None, seen: str | None) -> Judgement:
    whole = evidence()
    engine = whole.engine.model_copy(update={"asked_commit": asked, "commit": seen})
    return judge(whole.model_copy(update={"engine": engine}))


@pytest.mark.parametrize("seen", [FULL, FULL[:7], FULL[:9], FULL.upper()])
def test_an_engine_of_the_commit_that_was_asked_for_is_judged(seen: str) -> None:
    assert of_commit(FULL, seen).verdict is Verdict.PASS
    assert of_commit(FULL[:12], seen).verdict is Verdict.PASS


@pytest.mark.parametrize("seen", [None, "", FULL[:6], "f" * 40, f"{FULL}-dirty", f"{FULL[:8]}f"])
def test_an_engine_of_another_or_an_unknown_commit_is_invalid(seen: str | None) -> None:
    judgement = of_commit(FULL, seen)
    assert judgement.verdict is Verdict.INVALID
    assert odd(judgement)["engine.commit"].expected == FULL


def test_where_no_commit_was_asked_for_none_is_checked() -> None:
    assert "engine.commit" not in {check.name for check in of_commit(None, FULL).checks}


def test_a_crashed_check_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> list[Check]:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("dropgate.judge.promises.judge_outputs", crash)
    judgement = judge(evidence())
    assert judgement.verdict is Verdict.INVALID
    assert "crashed: ZeroDivisionError" in odd(judgement)["same_outputs"].seen


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        ([Verdict.PASS, Verdict.INVALID, Verdict.FAIL], Verdict.FAIL),
        ([Verdict.PASS, Verdict.INVALID], Verdict.INVALID),
        ([Verdict.PASS, Verdict.PASS], Verdict.PASS),
        ([], Verdict.INVALID),
    ],
)
def test_fail_beats_invalid_beats_pass(verdicts: list[Verdict], combined: Verdict) -> None:
    assert combine(verdicts) is combined


def test_exit_codes() -> None:
    assert [verdict.exit_code for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.INVALID)] == [0, 1, 75]


def test_judging_is_pure() -> None:
    same = evidence()
    assert judge(same) == judge(same)
