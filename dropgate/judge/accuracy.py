"""Accuracy by lm-eval, compared question by question."""

from __future__ import annotations

from dropgate.evidence import AccuracyEvidence, LmEvalSample
from dropgate.judge.statistics import tango_interval
from dropgate.judge.verdict import Check, Outcome, Verdict, passes, tokens, valid
from dropgate.scenario.promises import AccuracyPromise

READINGS = ("strict", "flexible")


def judge_accuracy(
    baseline: AccuracyEvidence | None, candidate: AccuracyEvidence | None, problems: int, promise: AccuracyPromise
) -> Outcome:
    """Judge that all questions were scored in both variants, and that the candidate is right no less often."""
    sides = {"baseline": baseline, "candidate": candidate}
    checks = [_judge_scored(f"accuracy.{name}", seen, problems) for name, seen in sides.items()]
    if any(check.verdict is not Verdict.PASS for check in checks) or not baseline or not candidate:
        return Outcome(checks)
    same = [(s.index, s.prompt_sha256) for s in baseline.samples] == [
        (s.index, s.prompt_sha256) for s in candidate.samples
    ] and baseline.sha256 == candidate.sha256
    checks.append(valid("accuracy.pair.same_work", same, "the same questions in the same order", _same(same)))
    if not same:
        return Outcome(checks)
    facts = {}
    for reading in READINGS:
        found, facts[reading] = _judge_reading(reading, baseline.samples, candidate.samples, promise)
        checks += found
    return Outcome(checks, facts)


def _same(same: bool) -> str:
    return "the same" if same else "others"


def _judge_scored(stem: str, seen: AccuracyEvidence | None, problems: int) -> Check:
    """Judge that every question has an answer to score; null text and empty answers are no wrong answers."""
    name, expected = f"{stem}.scored", f"{tokens(problems)} answers"
    if seen is None:
        return valid(name, False, expected, "lm-eval was not run")
    nothing = {"null text": _indices(seen, None), "an empty answer": _indices(seen, "")}
    said = f"{tokens(len(seen.samples) - sum(map(len, nothing.values())))} answers"
    for kind, indices in nothing.items():
        if indices:
            said += f"; {kind} to {len(indices)} questions, first #{indices[0]}"
    if seen.error:
        said += f"; {seen.error}"
    whole = len(seen.samples) == problems == seen.rows and not any(nothing.values()) and seen.error is None
    return valid(name, whole, expected, said)


def _indices(seen: AccuracyEvidence, nothing: str | None) -> list[int]:
    answers = {sample.index: sample.answer for sample in seen.samples}
    return [index for index, answer in answers.items() if (answer.strip() if answer else answer) == nothing]


def _judge_reading(
    reading: str, baseline: list[LmEvalSample], candidate: list[LmEvalSample], promise: AccuracyPromise
) -> tuple[list[Check], dict[str, float]]:
    pairs = [(getattr(one, reading), getattr(other, reading)) for one, other in zip(baseline, candidate, strict=True)]
    count = len(pairs)
    right = [sum(side) for side in zip(*pairs, strict=True)]
    gained, lost = (sum(pair == kind for pair in pairs) for kind in ((False, True), (True, False)))
    lower, upper = tango_interval(gained, lost, count, promise.level)
    stem, margin = f"accuracy.{reading}", promise.margin_pp / 100
    # Without any difference the interval is as narrow as this many questions can make it.
    smallest = -tango_interval(0, 0, count, promise.level)[0]
    said = (
        f"{right[0]} and {right[1]} of {count} right, {gained} gained and {lost} lost: "
        f"{100 * (right[1] - right[0]) / count:+.2f} pp, at least {100 * lower:+.2f} pp"
    )
    verdict = Verdict.PASS if lower > -margin else Verdict.FAIL
    if smallest > margin and upper >= -margin:
        verdict = Verdict.INVALID
        said += f"; inconclusive: {count} questions can show no less than {100 * smallest:.2f} pp"
    floor = promise.at_least * count
    checks = [
        valid(f"{stem}.any_right", any(right), "right answers in at least one variant", f"{right[0]} and {right[1]}"),
        Check(f"{stem}.non_inferior", verdict, f"a change above -{promise.margin_pp:g} pp", said),
        passes(f"{stem}.at_least", min(right) >= floor, f"{promise.at_least:.1%} right", said.partition(",")[0]),
    ]
    facts = {"lower": lower, "upper": upper, "margin": margin, "smallest_detectable": smallest}
    return checks, facts | {"gained": gained, "lost": lost}
