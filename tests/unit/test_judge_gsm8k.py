"""Scenario B's judge: a healthy run passes; each thing that can be wrong is named, with the right verdict."""

from dataclasses import replace

import pytest

from dropgate.evidence import AccuracyEvidence
from dropgate.judge import Judgement, Verdict, judge
from dropgate.judge.verdict import Check
from tests.support.gsm8k_factory import COUNT, Phase, accuracy, answer, evidence, phases, rates

BASE, CAND, ORACLE = (phases(name) for name in ("baseline", "candidate", "oracle"))


def odd(judgement: Judgement) -> dict[str, Check]:
    return {check.name: check for check in judgement.checks if check.verdict is not Verdict.PASS}


def identity_of(judgement: Judgement) -> dict[str, object]:
    return next(promise for promise in judgement.promises if promise["kind"] == "same_answers")


def judged(server: str, phase: str, made: Phase) -> dict[str, Check]:
    return odd(judge(evidence({(server, phase): made})))


def fewer_accepted(phase: Phase, every: int) -> Phase:
    """Take one accepted token from every n-th step."""
    number, records = 0, []
    for record in phase.requests:
        steps = []
        for count in record.steps_accepted or []:
            number += 1
            steps.append(count - (count > 0 and number % every == 0))
        records.append(record.model_copy(update={"steps_accepted": steps}))
    return replace(phase, requests=records)


def another_token(phase: Phase, index: int, top: list[tuple[int, float]]) -> Phase:
    """Let one answer take another token at its tenth place."""
    record = phase.requests[index]
    tokens, tops = list(record.token_ids), list(record.top_logprobs)
    tokens[10], tops[10] = top[0][0], top
    return phase.change(index, token_ids=tokens, top_logprobs=tops)


def test_a_healthy_run_passes() -> None:
    judgement = judge(evidence())
    assert odd(judgement) == {}
    seen = judgement.metrics["candidate"]
    assert seen["acceptance"]["prompts"] == seen["acceptance_hit_path"]["prompts"] == COUNT
    assert seen["acceptance"]["rate"] == seen["acceptance"]["accepted_tokens"] / seen["acceptance"]["draft_tokens"]
    assert sum(seen["acceptance"]["per_position"]) == seen["acceptance"]["accepted_tokens"]
    assert (seen["accuracy"]["strict"], seen["accuracy"]["scored"]) == (COUNT - 1, COUNT)
    assert [promise["kind"] for promise in judgement.promises][:2] == ["acceptance", "acceptance"]
    identity = identity_of(judgement)
    assert (identity["compared"], identity["divergent"], identity["control_divergent"]) == (2 * COUNT, 0, 0)
    assert identity["oracle_compared"] == 20


@pytest.mark.parametrize("phase", ["acceptance", "acceptance_hit_path"])
def test_a_lower_acceptance_rate_fails(phase: str) -> None:
    found = judged("candidate", phase, fewer_accepted(CAND[phase], 2))
    assert found[f"{phase}.non_inferior"].verdict is Verdict.FAIL
    assert set(found) == {f"{phase}.non_inferior", f"{phase}.candidate.band"}


def test_both_variants_falling_together_leave_the_band() -> None:
    known = rates(born=0.5)
    found = odd(judge(evidence(known=known)))
    assert {check.verdict for check in found.values()} == {Verdict.FAIL}
    assert set(found) == {f"{p}.{v}.band" for p in BASE for v in ("baseline", "candidate")}


def test_without_a_reference_for_its_data_the_band_is_invalid() -> None:
    found = odd(judge(evidence(known=None)))
    assert {check.verdict for check in found.values()} == {Verdict.INVALID}
    assert "dropgate reference" in found["acceptance.baseline.band"].seen


def test_too_few_prompts_are_inconclusive_and_the_number_that_would_do_is_named() -> None:
    noisy = fewer_accepted(CAND["acceptance"], 100)
    seen = evidence({("candidate", "acceptance"): noisy})
    strict = [p.model_copy(update={"margin_pp": 0.1}) if p.kind == "acceptance" else p for p in seen.scenario.promises]
    seen = seen.model_copy(update={"scenario": seen.scenario.model_copy(update={"promises": strict})})
    check = odd(judge(seen))["acceptance.non_inferior"]
    assert check.verdict is Verdict.INVALID
    assert "inconclusive" in check.seen
    assert "prompts would decide it" in check.seen


COUNTS = {
    "acceptance.candidate.requests_sum_to_accepted": replace(CAND["acceptance"], off_by=1),
    "acceptance.candidate.positions_sum_to_accepted": replace(CAND["acceptance"], off_by=1),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counters_that_disagree_with_the_requests_fail(name: str) -> None:
    assert judged("candidate", "acceptance", COUNTS[name])[name].verdict is Verdict.FAIL


def nothing_accepted(phase: Phase) -> Phase:
    return replace(phase, requests=[r.model_copy(update={"steps_accepted": [0] * 10}) for r in phase.requests])


def test_a_variant_of_whose_drafts_none_is_accepted_fails() -> None:
    found = judged("candidate", "acceptance", nothing_accepted(CAND["acceptance"]))
    assert found["acceptance.candidate.drafts_made"].verdict is Verdict.FAIL


def test_two_variants_without_an_accepted_draft_prove_nothing() -> None:
    both = {(side, "acceptance"): nothing_accepted(phases(side)["acceptance"]) for side in ("baseline", "candidate")}
    found = odd(judge(evidence(both)))
    assert {found[f"acceptance.{side}.drafts_made"].verdict for side, _ in both} == {Verdict.INVALID}


INVALID = {
    "acceptance.candidate.steps_known": CAND["acceptance"].change(3, steps_accepted=None),
    "acceptance.candidate.requests_complete": CAND["acceptance"].change(3, error="HTTP 500", http_status=500),
    "acceptance.pair.same_work": CAND["acceptance"].change(3, prompt_sha256="f" * 64),
    "acceptance.pair.cold_path": CAND["acceptance"].change(3, cached_tokens=64),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_run_not_worth_judging_is_invalid(name: str) -> None:
    found = judged("candidate", "acceptance", INVALID[name])
    assert found[name].verdict is Verdict.INVALID


@pytest.mark.parametrize(
    "change",
    [
        {"token_ids": [], "top_logprobs": []},
        {"token_ids": [1], "top_logprobs": [[(1, -0.1), (2, -3.0)]]},
        {"token_ids": [5, 5], "finish_reason": "length"},
    ],
)
def test_empty_and_cut_answers_are_counted_and_named(change: dict[str, object]) -> None:
    check = judged("candidate", "acceptance", CAND["acceptance"].change(3, **change))[
        "acceptance.candidate.requests_complete"
    ]
    assert check.verdict is Verdict.INVALID
    assert f"{COUNT - 1} whole answers of {COUNT} sent; 1 answered" in check.seen
    assert "(#3)" in check.seen


def test_one_row_less_is_invalid() -> None:
    short = replace(CAND["acceptance"], requests=CAND["acceptance"].requests[:-1])
    found = judged("candidate", "acceptance", short)
    assert {check.verdict for check in found.values()} == {Verdict.INVALID}
    assert "acceptance.candidate.requests_complete" in found


def test_another_order_in_one_variant_is_invalid() -> None:
    records = [record.model_copy(update={"index": i}) for i, record in enumerate(CAND["acceptance"].requests[::-1])]
    found = judged("candidate", "acceptance", replace(CAND["acceptance"], requests=records))
    assert found["acceptance.pair.same_work"].verdict is Verdict.INVALID


def test_a_hit_path_that_keeps_too_much_fails() -> None:
    base = BASE["acceptance_hit_path"].change(5, cached_tokens=2048)
    found = judged("baseline", "acceptance_hit_path", base)
    assert found["acceptance_hit_path.baseline.cached_tokens_per_request"].verdict is Verdict.FAIL


def test_a_question_that_missed_the_cache_is_no_hit_path() -> None:
    found = judged("candidate", "acceptance_hit_path", CAND["acceptance_hit_path"].change(5, cached_tokens=0))
    assert found["acceptance_hit_path.pair.hit_path"].verdict is Verdict.INVALID


def test_one_other_token_fails_when_the_control_has_no_noise() -> None:
    other = another_token(CAND["acceptance"], 40, [(9, -0.1), (3, -2.0)])
    found = judged("candidate", "acceptance", other)
    assert set(found) == {"acceptance.answers.baseline_candidate"}
    assert "request #40 at output token 10" in found["acceptance.answers.baseline_candidate"].seen


def test_a_tie_within_the_controls_noise_is_none_of_the_options_doing() -> None:
    """The control moves the very margin by as much, and diverges as well."""
    original = BASE["acceptance"]
    token = original.requests[2].token_ids[10]
    near = another_token(original, 2, [(token, -0.69), (9, -0.70)])
    swapped = another_token(original, 2, [(9, -0.69), (token, -0.70)])
    control = (*near.control[:2], swapped.requests[2].model_copy(update={"cached_tokens": 0}), *near.control[3:])
    base = replace(near, control=control)
    cand = another_token(CAND["acceptance"], 2, [(9, -0.69), (token, -0.70)])
    oracle = another_token(ORACLE["acceptance"], 2, [(token, -0.69), (9, -0.70)])
    made = {("baseline", "acceptance"): base, ("candidate", "acceptance"): cand, ("oracle", "acceptance"): oracle}
    judgement = judge(evidence(made))
    assert odd(judgement) == {}
    identity = identity_of(judgement)
    assert (identity["divergent"], identity["ties"], identity["control_divergent"]) == (1, 1, 1)


def test_both_variants_against_the_targets_own_word() -> None:
    other = another_token(ORACLE["acceptance"], 1, [(9, -0.1), (3, -2.0)])
    found = judged("oracle", "acceptance", other)
    assert set(found) == {"acceptance.answers.oracle_baseline", "acceptance.answers.oracle_candidate"}
    assert {check.verdict for check in found.values()} == {Verdict.FAIL}


def test_an_oracle_that_speculates_is_none() -> None:
    found = judged("oracle", "acceptance", ORACLE["acceptance"].change(1, steps_accepted=[1], steps_drafted=[7]))
    assert found["acceptance.answers.oracle"].verdict is Verdict.INVALID


@pytest.mark.parametrize("short", ["control", "warm_control"])
def test_a_control_that_is_not_whole_is_invalid(short: str) -> None:
    found = judged("baseline", "acceptance", replace(BASE["acceptance"], **{short: ()}))
    assert {check.verdict for check in found.values()} == {Verdict.INVALID}


def test_a_candidate_that_solves_less_fails() -> None:
    found = odd(judge(evidence(scored={"candidate": accuracy(wrong=tuple(range(12)))})))
    assert found["accuracy.strict.non_inferior"].verdict is Verdict.FAIL
    assert found["accuracy.strict.at_least"].verdict is Verdict.FAIL


def without_text(nothing: str | None) -> AccuracyEvidence:
    seen = accuracy()
    samples = [s.model_copy(update={"answer": nothing, "strict": False}) if s.index == 4 else s for s in seen.samples]
    return seen.model_copy(update={"samples": samples})


SCORED: dict[str, AccuracyEvidence | None] = {
    "null text to 1 questions, first #4": without_text(None),
    "an empty answer to 1 questions, first #4": without_text(""),
    "lm-eval ended with code 1": accuracy(exit_code=1, error="lm-eval ended with code 1", samples=[]),
    "lm-eval was not run": None,
}


@pytest.mark.parametrize("said", SCORED)
def test_what_has_no_answer_is_named_and_never_a_wrong_answer(said: str) -> None:
    found = odd(judge(evidence(scored={"candidate": SCORED[said]})))
    assert {name: check.verdict for name, check in found.items()} == {"accuracy.candidate.scored": Verdict.INVALID}
    assert said in found["accuracy.candidate.scored"].seen


def test_no_right_answer_in_either_variant_proves_nothing() -> None:
    none = accuracy(wrong=tuple(range(COUNT)))
    found = odd(judge(evidence(scored={"baseline": none, "candidate": none})))
    assert found["accuracy.strict.any_right"].verdict is Verdict.INVALID


def test_too_few_questions_for_the_margin_are_inconclusive() -> None:
    seen = evidence()
    promises = [p.model_copy(update={"margin_pp": 1.0}) if p.kind == "accuracy" else p for p in seen.scenario.promises]
    seen = seen.model_copy(update={"scenario": seen.scenario.model_copy(update={"promises": promises})})
    found = odd(judge(seen))
    assert found["accuracy.strict.non_inferior"].verdict is Verdict.INVALID


def test_a_missing_answer_of_the_control_is_not_taken_for_noise() -> None:
    control = (*BASE["acceptance"].control[:3], answer(3, 0, "baseline").model_copy(update={"error": "cut"}))
    found = judged("baseline", "acceptance", replace(BASE["acceptance"], control=control))
    assert found["acceptance.answers.cold_control"].verdict is Verdict.INVALID
