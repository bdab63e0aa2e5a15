"""The draft-acceptance rate: counted twice, compared over paired prompts, and held to its reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from dropgate.evidence import ACCEPTANCE_PHASES, ReferenceRates, RequestRecord
from dropgate.judge.identities import accepted_per_position, equal, judge_identities
from dropgate.judge.statistics import RateDifference, rate_difference
from dropgate.judge.verdict import Check, Outcome, Verdict, passes, tokens, valid
from dropgate.judge.view import PhaseView
from dropgate.metrics import ACCEPTED_TOKENS, DRAFT_TOKENS, DRAFTS
from dropgate.scenario.promises import AcceptanceBandPromise, AcceptancePromise

PHASE_OF_PATH = dict(zip(("cold", "hit"), ACCEPTANCE_PHASES, strict=True))


def judge_acceptance(
    baseline: PhaseView, candidate: PhaseView, promise: AcceptancePromise, draft_length: int
) -> Outcome:
    """Judge that the candidate's rate is not lower than the baseline's by the margin; counts first, then the rates."""
    checks = [check for view in (baseline, candidate) for check in _judge_counts(view, draft_length)]
    if any(check.verdict is Verdict.INVALID for check in checks):
        return Outcome(checks)
    sides = [_per_prompt(view.phase.requests) for view in (baseline, candidate)]
    seen = rate_difference(sides[0], sides[1], promise.level, promise.power)
    return Outcome([*checks, _judge_difference(baseline.name, seen, promise)], _facts(seen, promise))


def _judge_counts(view: PhaseView, draft_length: int) -> list[Check]:
    """Judge that drafts were made, that every step of every request is known, and that they sum to the counters."""
    stem, records, rises = view.stem, view.phase.requests, view.rises
    unknown = [record.index for record in records if not _has_steps(record)]
    steps, drafted, accepted = (rises.total(name) for name in (DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS))
    made = valid(
        f"{stem}.drafts_made",
        bool(drafted and accepted),
        "draft tokens, and some of them accepted",
        f"{tokens(drafted)} drafted, {tokens(accepted)} accepted",
    )
    told = valid(
        f"{stem}.steps_known",
        not unknown,
        "accepted and drafted tokens of every step of every request",
        f"missing for {len(unknown)} requests, first #{unknown[0]}" if unknown else "all known",
    )
    if unknown:
        return [made, told]
    lists = [(record.steps_accepted or [], record.steps_drafted or []) for record in records]
    short = [draft_length - count for _, steps_drafted in lists for count in steps_drafted]
    by_position = [
        sum(count > position for accepted_steps, _ in lists for count in accepted_steps)
        for position in range(draft_length)
    ]
    return [
        made,
        told,
        equal(f"{stem}.requests_sum_to_steps", len(short), steps),
        equal(f"{stem}.requests_sum_to_accepted", sum(sum(counts) for counts, _ in lists), accepted),
        _judge_drafted(view, short, draft_length),
        passes(
            f"{stem}.requests_sum_to_positions",
            by_position == accepted_per_position(view),
            str(by_position),
            str(accepted_per_position(view)),
        ),
        *judge_identities(view, draft_length),
    ]


def _has_steps(record: RequestRecord) -> bool:
    accepted, drafted = record.steps_accepted, record.steps_drafted
    return bool(accepted) and drafted is not None and len(accepted or []) == len(drafted)


def _judge_drafted(view: PhaseView, short: list[int], draft_length: int) -> Check:
    """Judge that draft tokens are steps x K, less what each truncated step lacks of its K, step by step."""
    steps, drafted = view.rises.total(DRAFTS), view.rises.total(DRAFT_TOKENS)
    truncated = [missing for missing in short if missing]
    less = f" - {tokens(sum(truncated))} of {len(truncated)} truncated steps" if truncated else ""
    expected = draft_length * steps - sum(truncated)
    return passes(
        f"{view.stem}.draft_tokens",
        drafted == expected and min(truncated, default=1) > 0,
        f"{tokens(expected)} = {tokens(steps)} x {draft_length}{less}",
        tokens(drafted),
    )


def _per_prompt(records: Iterable[RequestRecord]) -> tuple[list[int], list[int]]:
    counts = [(sum(record.steps_accepted or []), sum(record.steps_drafted or [])) for record in records]
    return [accepted for accepted, _ in counts], [drafted for _, drafted in counts]


def _judge_difference(name: str, seen: RateDifference, promise: AcceptancePromise) -> Check:
    """Pass, fail, or inconclusive: a run that could not have seen a drop of the margin proves nothing.

    A drop that is clearly larger than the margin fails however small the run was.
    """
    margin = promise.margin_pp / 100
    expected = f"a change above -{promise.margin_pp:g} pp, one-sided level {promise.level:g}"
    said = (
        f"{_pp(seen.difference)} ({_percent(seen.baseline)} to {_percent(seen.candidate)} of {seen.prompts} prompts), "
        f"at least {_pp(seen.lower)} (delta method) or {_pp(seen.bootstrap_lower)} (bootstrap); "
        f"smallest detectable drop {100 * seen.smallest_detectable:.3f} pp"
    )
    bounds = [seen.lower > -margin, seen.bootstrap_lower > -margin]
    if seen.upper < -margin:
        verdict = Verdict.FAIL
    elif seen.smallest_detectable > margin:
        verdict = Verdict.INVALID
        said += f": inconclusive, {tokens(seen.prompts_needed(margin))} prompts would decide it"
    elif any(bounds) != all(bounds):
        verdict = Verdict.INVALID
        said += ": inconclusive, the two bounds disagree"
    else:
        verdict = Verdict.PASS if all(bounds) else Verdict.FAIL
    return Check(f"{name}.non_inferior", verdict, expected, said)


def _facts(seen: RateDifference, promise: AcceptancePromise) -> dict[str, float]:
    return {"margin": promise.margin_pp / 100, **asdict(seen), "difference": seen.difference}


def judge_band(views: Iterable[PhaseView], promise: AcceptanceBandPromise, known: ReferenceRates | None) -> Outcome:
    """Judge that neither variant strays from the reference's rate for this very data, by phase and variant."""
    checks = []
    for view in views:
        rate = view.rises.total(ACCEPTED_TOKENS) / max(1, view.rises.total(DRAFT_TOKENS))
        name, born = f"{view.stem}.band", known.rates.get(view.name, {}).get(view.variant) if known else None
        if born is None:
            hint = "the reference has none for this data and this many questions: see `dropgate reference`"
            checks.append(valid(name, False, "a rate to compare with", hint))
            continue
        good = abs(rate - born) <= promise.tolerance_pp / 100
        checks.append(passes(name, good, f"{_percent(born)} +- {promise.tolerance_pp:g} pp", _percent(rate)))
    return Outcome(checks)


def _percent(share: float) -> str:
    return f"{share:.3%}"


def _pp(share: float) -> str:
    return f"{100 * share:+.3f} pp"
